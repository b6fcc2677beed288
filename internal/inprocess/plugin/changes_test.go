// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package plugin

import (
	"context"
	"errors"
	"net"
	"os"
	"os/exec"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/containernetworking/cni/pkg/types"

	"github.com/allocnet/allocnet/internal/inprocess/rules"
	"github.com/allocnet/allocnet/internal/netfilter"
	"github.com/allocnet/allocnet/internal/roottest"
	"github.com/allocnet/allocnet/internal/sandbox"
)

// TestRootLeasesAreReleasedLast: not while a link may still have the address, nor while rules may
// still name it, and all of them. What fails is an error as a plugin gives it.
func TestRootLeasesAreReleasedLast(t *testing.T) {
	roottest.Require(t)
	sandbox.Run(t, "nft", "add table ip filter; add chain ip filter "+"CNI-FORWARD")
	program, err := exec.LookPath("nft")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { sandbox.Run(t, program, "delete table ip filter") })
	t.Setenv("PATH", t.TempDir()) // a host that cannot remove the rules that it may have
	address := net.IPv4(192, 0, 2, 5)
	accept := rules.Rule{Chain: "CNI-FORWARD", Args: []string{"-s", address.String(), "-j", "ACCEPT"}}
	removal := rules.Change{Remove: true, IPTables: &rules.IPTables{
		Family: netfilter.IPv4, Table: "filter", Address: address, Rules: []rules.Rule{accept},
	}}
	released := 0
	release := func(context.Context) error { released++; return errors.New("scripted") }
	leases := []func(context.Context) error{release, release}
	errs := Commit(t.Context(), nil, []*Changes{
		{leases: leases},
		{leases: leases, links: []link{{netns: "/dev/null", name: "eth0"}}},
		{leases: leases, Rules: rules.Set{Changes: []rules.Change{removal}}},
	})
	if released != 2 {
		t.Errorf("%d leases are released, want those of the first network alone", released)
	}
	for i, err := range errs {
		var own *types.Error
		if !errors.As(err, &own) || own.Code != types.ErrInternal {
			t.Errorf("error %d: %v, want one with code %d", i, err, types.ErrInternal)
		}
	}
}

// TestPanicOfACommit: the process serves other allocations, so nothing of it is left. As that
// of a plugin, the error has the stack as its details.
func TestPanicOfACommit(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // which would close what is forgotten
	withoutTable := rules.Change{NFTables: &rules.NFTables{}}
	release := func(context.Context) error { panic("scripted") }
	for name, c := range map[string]*Changes{
		"rules":  {Rules: rules.Set{Changes: []rules.Change{withoutTable}}},
		"leases": {leases: []func(context.Context) error{release}},
		"after":  {After: []func() error{func() error { return release(t.Context()) }}},
	} {
		before := sockets(t)
		err := Commit(t.Context(), nil, []*Changes{c})[0]
		var own *types.Error
		if !errors.As(err, &own) || own.Code != types.ErrInternal || !strings.HasPrefix(own.Msg, "commit: panic: ") ||
			strings.Contains(own.Msg, "\n") || !strings.Contains(own.Details, "changes.go") {
			t.Errorf("%s: %v, want the panic as an internal error", name, err)
		}
		sandbox.Eventually(t, name+" leave no socket", func() bool { return sockets(t) == before })
	}
}

// sockets counts the sockets of the process.
func sockets(t *testing.T) (n int) {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		if target, _ := os.Readlink("/proc/self/fd/" + entry.Name()); strings.HasPrefix(target, "socket:") {
			n++
		}
	}
	return n
}
