// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"testing"

	"github.com/allocnet/allocnet/cniplugin"
	"github.com/allocnet/allocnet/cniplugin/shim"
	"github.com/allocnet/allocnet/internal/sandbox"
)

// TestLinkedPackages: the program starts for each call.
func TestLinkedPackages(t *testing.T) {
	sandbox.RequireLinked(t, sandbox.Linked{
		Forbidden: []string{"github.com/allocnet/allocnet", "net", "crypto", "os/exec", "github.com/containernetworking"},
		Light: []string{
			"github.com/allocnet/allocnet/cmd/allocnet-cni", "github.com/allocnet/allocnet/cniplugin/shim",
			"github.com/allocnet/allocnet/internal/memfile", "github.com/allocnet/allocnet/internal/version",
		},
		Modules: []string{"golang.org/x/sys"},
	})
}

// TestSize: the programs are read for each call.
func TestSize(t *testing.T) {
	sandbox.RequireSmall(t, cniplugin.Name, map[string]int64{cniplugin.Name: 5_000_000, shim.Engine: sandbox.PluginBytes})
}
