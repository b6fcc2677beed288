// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package inprocess

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
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
	sandbox.Run(t, "nft", "add table ip filter; add chain ip filter "+forwardChain)
	program, err := exec.LookPath("nft")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { sandbox.Run(t, program, "delete table ip filter") })
	t.Setenv("PATH", t.TempDir()) // a host that cannot remove the rules that it may have
	address := net.IPv4(192, 0, 2, 5)
	accept := rules.Rule{Chain: forwardChain, Args: []string{"-s", address.String(), "-j", "ACCEPT"}}
	removal := rules.Change{Remove: true, IPTables: &rules.IPTables{
		Family: netfilter.IPv4, Table: "filter", Address: address, Rules: []rules.Rule{accept},
	}}
	released := 0
	release := func(context.Context) error { released++; return errors.New("scripted") }
	leases := []func(context.Context) error{release, release}
	errs := Commit(t.Context(), nil, []*Changes{
		{leases: leases},
		{leases: leases, links: []link{{netns: "/dev/null", name: "eth0"}}},
		{leases: leases, rules: rules.Set{Changes: []rules.Change{removal}}},
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

// TestLeasesOutlastChains: DEL of each type releases its leases only when it is committed, which
// may be long after: the links have the addresses until then.
func TestLeasesOutlastChains(t *testing.T) {
	for _, name := range []string{"bridge", "ptp", "macvlan"} {
		dir := t.TempDir()
		lease := filepath.Join(dir, "n", "192.0.2.5")
		config := fmt.Sprintf(`{"cniVersion": "1.1.0", "name": "n", "type": %q,
			"ipam": {"type": "host-local", "subnet": "192.0.2.0/24", "dataDir": %q}}`, name, dir)
		if err := errors.Join(os.Mkdir(filepath.Dir(lease), 0o755), os.WriteFile(lease, []byte("c\r\neth0"), 0o600)); err != nil {
			t.Fatal(err)
		}
		chain := &Chain{}
		if _, err := chain.ExecPlugin(t.Context(), name, []byte(config), append([]string{"CNI_COMMAND=DEL"}, environ[1:]...)); err != nil {
			t.Fatal(err)
		}
		if !exists(lease) {
			t.Errorf("%s: the lease is released before the link is removed", name)
		}
		if err := Commit(t.Context(), nil, []*Changes{chain.Changes()})[0]; err != nil || exists(lease) {
			t.Errorf("%s: the lease is left after the commit: %v", name, err)
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
		"rules":  {rules: rules.Set{Changes: []rules.Change{withoutTable}}},
		"leases": {leases: []func(context.Context) error{release}},
		"after":  {after: []func() error{func() error { return release(t.Context()) }}},
	} {
		before := sockets(t)
		err := Commit(t.Context(), nil, []*Changes{c})[0]
		var own *types.Error
		if !errors.As(err, &own) || own.Code != types.ErrInternal || !strings.HasPrefix(own.Msg, "commit: panic: ") ||
			strings.Contains(own.Msg, "\n") || !strings.Contains(own.Details, "changes.go") {
			t.Errorf("%s: %v, want the panic as an internal error", name, err)
		}
		if after := sockets(t); after != before {
			t.Errorf("%s: %d sockets are left, were %d", name, after, before)
		}
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
