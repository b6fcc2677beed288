// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/allocnet/allocnet/internal/sandbox"
)

// forbidden are packages that the plugin must not link, because it is executed for
// every attachment.
var forbidden = []string{
	"github.com/prometheus/client_golang", "google.golang.org/grpc", "github.com/hashicorp/go-plugin",
	"github.com/hashicorp/nomad/api", "github.com/spf13/cobra", "github.com/spf13/pflag", "github.com/fsnotify/fsnotify",
	"github.com/allocnet/allocnet/agent", "github.com/allocnet/allocnet/hook", "github.com/allocnet/allocnet/cniconf",
}

// modules are all that the plugin links except the standard library and allocnet.
var modules = []string{
	"github.com/agext/levenshtein", "github.com/apparentlymart/go-textseg/v15", "github.com/containernetworking/cni", "github.com/fatih/color",
	"github.com/google/go-cmp", "github.com/hashicorp/go-hclog", "github.com/hashicorp/hcl/v2", "github.com/mattn/go-colorable",
	"github.com/mattn/go-isatty", "github.com/mitchellh/go-wordwrap", "github.com/vishvananda/netlink", "github.com/vishvananda/netns",
	"github.com/zclconf/go-cty", "golang.org/x/sync", "golang.org/x/sys", "golang.org/x/text",
}

func TestLinkedPackages(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", "-f", "{{.ImportPath}} {{with .Module}}{{.Path}}{{end}}", ".").Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range strings.Split(strings.TrimSpace(string(out)), "\n") {
		path, module, _ := strings.Cut(line, " ")
		for _, banned := range forbidden {
			if path == banned || strings.HasPrefix(path, banned+"/") {
				t.Errorf("%s is linked", path)
			}
		}
		if module != "" && module != "github.com/allocnet/allocnet" && !slices.Contains(modules, module) {
			t.Errorf("%s is linked, of a module that is not on the list: %s", path, module)
		}
	}
}

// TestSize builds the plugin as make build does, and holds it to its size and to the time that
// it takes to start.
func TestSize(t *testing.T) {
	binary := filepath.Join(t.TempDir(), name)
	if err := sandbox.Build(binary, "cmd/"+name); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(binary)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d bytes", info.Size())
	if info.Size() > 12_000_000 {
		t.Errorf("%d bytes, want at most 12 MB", info.Size())
	}
	out, err := run(binary)
	if want := "CNI allocnet-ipam plugin v"; err != nil || !strings.HasPrefix(out, want) {
		t.Errorf("without arguments: %v, %q, want %q first", err, out, want)
	}
	best := time.Hour
	for range 200 { // the machine may be busy
		if best <= 5*time.Millisecond {
			break
		}
		began := time.Now()
		out, err = run(binary, "CNI_COMMAND=VERSION")
		best = min(best, time.Since(began))
	}
	t.Logf("VERSION takes %s", best)
	if want := `"supportedVersions":["0.1.0","0.2.0","0.3.0","0.3.1","0.4.0","1.0.0","1.1.0"]`; err != nil || !strings.Contains(out, want) {
		t.Errorf("VERSION: %v, %q, want %s", err, out, want)
	}
	if best > 5*time.Millisecond {
		t.Errorf("VERSION takes %s, want at most 5 ms", best)
	}
}

func run(binary string, environ ...string) (string, error) {
	cmd := exec.Command(binary)
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH")}, environ...)
	out, err := cmd.CombinedOutput()
	return string(out), err
}
