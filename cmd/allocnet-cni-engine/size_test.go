// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"testing"

	"github.com/allocnet/allocnet/internal/sandbox"
)

// forbidden are packages that the program must not link, because it is executed for
// every CNI call without the agent.
var forbidden = []string{
	"github.com/prometheus/client_golang", "google.golang.org/grpc", "github.com/hashicorp/go-plugin",
	"github.com/hashicorp/nomad/api", "github.com/spf13/cobra", "github.com/spf13/pflag", "github.com/fsnotify/fsnotify",
	"github.com/allocnet/allocnet/agent", "github.com/allocnet/allocnet/nomad",
}

// light are packages below the forbidden ones that the plugin may link.
var light = []string{"github.com/allocnet/allocnet/agent/api"}

// modules are all that the plugin links except the standard library and allocnet.
var modules = []string{
	"github.com/cespare/xxhash/v2", "github.com/containernetworking/cni", "github.com/containernetworking/plugins", "github.com/coreos/go-iptables", "github.com/fatih/color",
	"github.com/godbus/dbus/v5", "github.com/google/nftables", "github.com/hashicorp/go-hclog",
	"github.com/mattn/go-colorable", "github.com/mattn/go-isatty", "github.com/mdlayher/netlink", "github.com/mdlayher/socket", "github.com/pkg/errors", "github.com/safchain/ethtool",
	"github.com/insomniacslk/dhcp", "github.com/mdlayher/packet", "github.com/pierrec/lz4/v4", "github.com/u-root/uio", // clients of DHCP
	"github.com/vishvananda/netlink", "github.com/vishvananda/netns", "go.opentelemetry.io/otel",
	"go.opentelemetry.io/otel/trace", "golang.org/x/net", "golang.org/x/sync", "golang.org/x/sys", "sigs.k8s.io/knftables",
	// The rules of isolation are in HCL: their packages are a third of a millisecond of the start.
	"github.com/agext/levenshtein", "github.com/apparentlymart/go-textseg/v15", "github.com/hashicorp/hcl/v2", "github.com/mitchellh/go-wordwrap",
	"github.com/zclconf/go-cty", "golang.org/x/text",
}

func TestLinkedPackages(t *testing.T) {
	sandbox.RequireLinked(t, sandbox.Linked{Forbidden: forbidden, Light: light, Modules: modules})
}
