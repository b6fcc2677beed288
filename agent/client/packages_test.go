// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package client_test

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// packages are all that a program links for the client, besides the standard
// library: neither the engine nor netlink.
var packages = []string{
	"github.com/allocnet/allocnet/agent/api",
	"github.com/allocnet/allocnet/agent/client",
	"github.com/allocnet/allocnet/allocation",
	"github.com/allocnet/allocnet/internal/errdefs",
	"github.com/containernetworking/cni/pkg/types",
}

func TestLinkedPackages(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", "-f", "{{if not .Standard}}{{.ImportPath}}{{end}}", ".").Output()
	if err != nil {
		t.Fatal(err)
	}
	linked := strings.Fields(string(out))
	slices.Sort(linked)
	if !slices.Equal(linked, packages) {
		t.Errorf("linked are\n%s\nwant\n%s", strings.Join(linked, "\n"), strings.Join(packages, "\n"))
	}
}
