// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/allocnet/allocnet/internal/sandbox"
)

// forbidden are packages that the plugin must not link, because it is executed for
// every attachment.
var forbidden = []string{
	"github.com/prometheus/client_golang", "google.golang.org/grpc", "github.com/hashicorp/go-plugin",
	"github.com/hashicorp/hcl/v2/gohcl", "github.com/hashicorp/nomad/api", "github.com/spf13/cobra", "github.com/spf13/pflag", "github.com/fsnotify/fsnotify",
	"github.com/allocnet/allocnet/agent", "github.com/allocnet/allocnet/hook", "github.com/allocnet/allocnet/cniconf",
}

// modules are all that the plugin links except the standard library and allocnet.
var modules = []string{
	"github.com/agext/levenshtein", "github.com/apparentlymart/go-textseg/v15", "github.com/containernetworking/cni", "github.com/fatih/color",
	"github.com/hashicorp/go-hclog", "github.com/hashicorp/hcl/v2", "github.com/mattn/go-colorable",
	"github.com/mattn/go-isatty", "github.com/mitchellh/go-wordwrap", "github.com/vishvananda/netlink", "github.com/vishvananda/netns",
	"github.com/zclconf/go-cty", "golang.org/x/sync", "golang.org/x/sys", "golang.org/x/text",
}

func TestLinkedPackages(t *testing.T) {
	sandbox.RequireLinked(t, sandbox.Linked{Forbidden: forbidden, Modules: modules})
}

func TestSize(t *testing.T) {
	cmd := exec.Command(sandbox.RequireSmall(t, name, map[string]int64{name: sandbox.PluginBytes}))
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "CNI_COMMAND=VERSION"}
	out, err := cmd.CombinedOutput()
	if want := `"supportedVersions":["0.1.0","0.2.0","0.3.0","0.3.1","0.4.0","1.0.0","1.1.0"]`; err != nil || !strings.Contains(string(out), want) {
		t.Errorf("VERSION: %v, %s, want %s", err, out, want)
	}
}
