// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/allocnet/allocnet/cluster/ipam"
	"github.com/allocnet/allocnet/cluster/ipam/block"
	"github.com/allocnet/allocnet/cluster/ipam/local"
	"github.com/allocnet/allocnet/cluster/ipam/pool"
	"github.com/allocnet/allocnet/cluster/route"
	"github.com/allocnet/allocnet/cluster/span"
	"github.com/allocnet/allocnet/cmd/allocnet/cli"
)

// leftTable counts the removals.
type leftTable struct {
	pools   []route.Pool
	removed int
	err     error
}

func (f *leftTable) Pools() ([]route.Pool, error) { return f.pools, nil }

func (f *leftTable) RemoveAll() error { f.removed++; return f.err }

// leftFilters counts the removals.
type leftFilters struct {
	removed int
	err     error
}

func (f *leftFilters) Remove(context.Context, map[string][]netip.Prefix) error {
	f.removed++
	return f.err
}

// leftPool is a pool of which this host has blocks.
type leftPool struct {
	blocks []ipam.Block
	leases []local.Lease
	// lost are blocks that another host has.
	lost []ipam.Block
	// objections is how often a copy of the host could object.
	objections int
	err        error
}

func (f *leftPool) Usage(context.Context) (pool.Usage, error) {
	var u pool.Usage
	for _, b := range f.blocks {
		u.Blocks = append(u.Blocks, pool.BlockUsage{Block: b})
	}
	for _, b := range f.lost {
		u.Blocks = append(u.Blocks, pool.BlockUsage{Block: b, State: string(block.Lost)})
	}
	return u, nil
}

func (f *leftPool) Leases(context.Context) ([]local.Lease, error) { return f.leases, nil }

func (f *leftPool) Leave(context.Context) ([]ipam.Block, error) {
	if f.objections--; f.objections >= 0 {
		return nil, fmt.Errorf("release: %w", block.ErrObjection)
	}
	if f.err != nil {
		return nil, f.err
	}
	if len(f.leases) > 0 {
		return nil, nil
	}
	released := f.blocks
	f.blocks = nil
	return released, nil
}

// TestClusterLeave: nothing is removed while something is attached, or without a yes; routes and
// devices are removed also if the store does not answer, and what stays is named.
func TestClusterLeave(t *testing.T) {
	lease := local.Lease{Address: netip.MustParseAddr("10.91.0.2"), Owner: ipam.Owner{ContainerID: "a1.allocnet.eth1", Interface: "eth1"}}
	for name, test := range map[string]struct {
		leave   leave
		leases  []local.Lease
		used    string
		store   error
		kernel  error
		answer  string
		removed int
		code    int
		want    string
	}{
		"all is given back": {leave{yes: true}, nil, "", nil, nil, "", 1, cli.ExitDone, "released of pool web: 10.91.0.0/26\n"},
		"after a yes":       {leave{}, nil, "", nil, nil, "y\n", 1, cli.ExitDone, "pool web: routes and devices, blocks of this host: 10.91.0.0/26\nRemove this? [y/N] removed the routes"},
		"without a yes":     {leave{}, nil, "", nil, nil, "\n", 0, cli.ExitRefused, "nothing is removed"},
		"with a lease":      {leave{yes: true}, []local.Lease{lease}, "10.91.0.2", nil, nil, "", 0, cli.ExitRefused, "stop what is attached first: 10.91.0.2 (allocation a1, eth1, pool web)"},
		"without its lease": {leave{yes: true}, nil, "10.91.0.3", nil, nil, "", 0, cli.ExitRefused, "10.91.0.3 (namespace /run/netns/x, pool web)"},
		"with no network":   {leave{yes: true}, nil, "10.92.0.3", nil, nil, "", 0, cli.ExitRefused, "10.92.0.3 (namespace /run/netns/x, pool old)"},
		"of another pool":   {leave{yes: true}, nil, "10.93.0.3", nil, nil, "", 1, cli.ExitDone, "pool old: routes and devices, blocks of this host: -\n"},
		"as JSON": {leave{yes: true, json: true}, nil, "", nil, nil, "", 1, cli.ExitDone, `[
  {
    "pool": "web",
    "blocks": [
      "10.91.0.0/26"
    ],
    "addresses": []
  }
]
`},
		"without the store": {leave{yes: true}, nil, "", ipam.ErrUnavailable, nil, "", 1, cli.ExitFailed, "pool web: 10.91.0.0/26 still belong to this host: repeat the command: the store is unavailable"},
		"kernel refuses":    {leave{yes: true}, nil, "", nil, errors.New("EPERM"), "", 1, cli.ExitFailed, "remove the routes and devices: EPERM"},
		"firewall, blocks":  {leave{yes: true, filters: &leftFilters{err: errors.New("locked")}}, nil, "", nil, nil, "", 1, cli.ExitFailed, "released of pool web: 10.91.0.0/26\n"},
		"firewall refuses":  {leave{yes: true, filters: &leftFilters{err: errors.New("locked")}}, nil, "", nil, nil, "", 1, cli.ExitFailed, "remove what lets packets through the firewall: locked"},
	} {
		table := &leftTable{pools: []route.Pool{{Name: "old", Subnets: []netip.Prefix{netip.MustParsePrefix("10.92.0.0/16")}}}, err: test.kernel}
		l := test.leave
		l.table = table
		filters := &leftFilters{}
		if l.filters == nil {
			l.filters = filters
		}
		l.pools = map[string]leavingPool{"web": &leftPool{blocks: []ipam.Block{netip.MustParsePrefix("10.91.0.0/26")}, leases: test.leases, err: test.store}}
		l.subnets = map[string][]netip.Prefix{"web": {netip.MustParsePrefix("10.91.0.0/16")}}
		l.used = func() (map[netip.Addr]string, error) {
			if test.used == "" {
				return nil, nil
			}
			return map[netip.Addr]string{netip.MustParseAddr(test.used): "/run/netns/x"}, nil
		}
		cmd := &cobra.Command{}
		var out bytes.Buffer
		cmd.SetContext(t.Context())
		cmd.SetOut(&out)
		cmd.SetIn(strings.NewReader(test.answer))
		err := l.run(cmd)
		text := out.String()
		if err != nil {
			text += err.Error()
		}
		code := cli.ExitDone
		if err != nil {
			code = cli.ExitCode(err)
		}
		if code != test.code || table.removed != test.removed || !strings.Contains(text, test.want) {
			t.Errorf("%s: exit code %d, %d removals, want %d, %d and %q:\n%s", name, code, table.removed, test.code, test.removed, test.want, text)
		}
		if test.code == cli.ExitDone && filters.removed != 1 {
			t.Errorf("%s: the filters are removed %d times", name, filters.removed)
		}
	}
}

// TestClusterLeaveAttached: what was attached while the command asked keeps its routes.
func TestClusterLeaveAttached(t *testing.T) {
	table, web := &leftTable{}, &leftPool{}
	l := leave{table: table, pools: map[string]leavingPool{"web": web}, subnets: map[string][]netip.Prefix{}}
	l.used = func() (map[netip.Addr]string, error) { return map[netip.Addr]string{}, nil }
	l.subnets["web"] = []netip.Prefix{netip.MustParsePrefix("10.91.0.0/16")}
	cmd := &cobra.Command{}
	cmd.SetContext(t.Context())
	cmd.SetOut(&bytes.Buffer{})
	cmd.SetIn(answer(func() {
		web.leases = []local.Lease{{Address: netip.MustParseAddr("10.91.0.2"), Owner: ipam.Owner{ContainerID: "a2.allocnet.eth1", Interface: "eth1"}}}
	}))
	err := l.run(cmd)
	if want := "nothing is removed: stop what is attached first: 10.91.0.2 (allocation a2, eth1, pool web)"; cli.ExitCode(err) != cli.ExitRefused || err.Error() != want || table.removed > 0 {
		t.Errorf("%d removals, %v, want %s", table.removed, err, want)
	}
}

// answer is a person who says yes, after something has happened.
type answer func()

func (happen answer) Read(data []byte) (int, error) {
	happen()
	return copy(data, "y\n"), nil
}

// TestClusterLeaveKeeps: what keeps a block of a store that answers is named. One that another host
// has is not to be given back.
func TestClusterLeaveKeeps(t *testing.T) {
	lost := []ipam.Block{netip.MustParsePrefix("10.91.0.64/26")}
	since := []local.Lease{{Address: netip.MustParseAddr("10.91.0.2"), Owner: ipam.Owner{ContainerID: "a2.allocnet.eth1", Interface: "eth1"}}}
	for _, leases := range [][]local.Lease{nil, since} {
		l := leave{
			pools: map[string]leavingPool{"web": &leftPool{blocks: []ipam.Block{netip.MustParsePrefix("10.91.0.0/26")}, leases: leases, lost: lost}},
			used:  func() (map[netip.Addr]string, error) { return map[netip.Addr]string{}, nil },
		}
		l.subnets = map[string][]netip.Prefix{"web": {netip.MustParsePrefix("10.91.0.0/16")}}
		_, err := l.release(t.Context(), io.Discard)
		if leases == nil && err != nil {
			t.Error(err)
		}
		want := "pool web: 10.91.0.0/26 still belong to this host: repeat the command: what is attached since keeps them: 10.91.0.2 (allocation a2, eth1, pool web)"
		if leases != nil && (cli.ExitCode(err) != cli.ExitFailed || err.Error() != want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// TestClusterLeaveWaits: as long as only a copy of the host could object, and not for ever.
func TestClusterLeaveWaits(t *testing.T) {
	for objections, want := range map[int]int{0: 1, 3: 1, 1000: 0} {
		l := leave{
			pools: map[string]leavingPool{"web": &leftPool{blocks: []ipam.Block{netip.MustParsePrefix("10.91.0.0/26")}, objections: objections}},
			used:  func() (map[netip.Addr]string, error) { return map[netip.Addr]string{}, nil },
		}
		released, err := l.release(t.Context(), io.Discard)
		if len(released[0].Blocks) != want || (want == 0) != errors.Is(err, block.ErrObjection) {
			t.Errorf("%d objections: %v, %v, want %d", objections, released, err, want)
		}
	}
}

// TestClusterLeaveWithoutNetwork: the blocks of a pool whose network was removed before are named, as
// nothing can give them back. Those of a flat pool are not concerned.
func TestClusterLeaveWithoutNetwork(t *testing.T) {
	state := pooled(t).StateDir
	c, err := ipam.Parse(fmt.Appendf(nil, `{"type": "allocnet-ipam", "pool": "web", "mode": "auto", "ranges": [{"subnet": "10.92.0.0/24"}], "blockSize": {"4": 24},
		"stateDir": %q, "dataDir": %q, "configDir": %q}`, state, t.TempDir(), t.TempDir()))
	if err != nil {
		t.Fatal(err)
	}
	a, err := access(c)
	if err != nil {
		t.Fatal(err)
	}
	owner := ipam.Owner{ContainerID: "a1", Interface: "eth0"}
	web := a.pool.(*pool.Pool)
	if _, err := web.Add(t.Context(), ipam.Request{Owner: owner}); err != nil {
		t.Fatal(err)
	}
	if err := web.Del(t.Context(), owner); err != nil {
		t.Fatal(err)
	}
	table := &leftTable{}
	l := leave{yes: true, table: table, filters: &leftFilters{}, used: func() (map[netip.Addr]string, error) { return map[netip.Addr]string{}, nil }}
	if err := l.findPools([]string{t.TempDir()}, state); err != nil {
		t.Fatal(err)
	}
	cmd := &cobra.Command{}
	cmd.SetContext(t.Context())
	cmd.SetOut(&bytes.Buffer{})
	err = l.run(cmd)
	want := "pool web: 10.92.0.0/24 still belong to this host: no network uses the pool: restore it, and repeat the command"
	if err == nil || cli.ExitCode(err) != cli.ExitFailed || err.Error() != want || table.removed != 1 {
		t.Errorf("%d removals, %v, want %s", table.removed, err, want)
	}
}

// TestClusterLeaveRefuses: not while an agent runs, and not with a pool that cannot be read.
func TestClusterLeaveRefuses(t *testing.T) {
	if cli.RequireRoot() != nil {
		code, _, errs := runs(t, "cluster", "leave", "--yes")
		if code != cli.ExitRefused || !strings.Contains(errs, "run as root") {
			t.Errorf("exit code %d: %s", code, errs)
		}
		return
	}
	pooled(t)
	state := t.TempDir()
	unlock, err := span.Lock(span.Dir(state))
	if err != nil {
		t.Fatal(err)
	}
	defer unlock()
	agent := exec.Command("sleep", "1000") // with the lock of an agent that has another state directory
	elsewhere := span.Dir(t.TempDir())
	if err := os.MkdirAll(elsewhere, 0o700); err != nil {
		t.Fatal(err)
	}
	lock, err := os.Create(filepath.Join(elsewhere, "lock"))
	if err != nil {
		t.Fatal(err)
	}
	agent.Stdin = lock
	if err := agent.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _, _ = agent.Process.Kill(), agent.Wait(), lock.Close() }) // killed
	code, _, errs := runs(t, "cluster", "leave", "--yes", "--state-dir", t.TempDir())
	if code != cli.ExitRefused || !strings.Contains(errs, "whose records are in "+elsewhere) {
		t.Errorf("with an agent elsewhere: exit code %d: %s", code, errs)
	}
	file := filepath.Join(t.TempDir(), "agent.hcl")
	if err := os.WriteFile(file, fmt.Appendf(nil, "state_dir = %q\n", state), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, flag := range [][]string{{"--state-dir", state}, {"--config", file}} {
		code, _, errs := runs(t, append([]string{"cluster", "leave", "--yes"}, flag...)...)
		if code != cli.ExitRefused || !strings.Contains(errs, "stop the agent first (systemctl stop allocnet.service allocnet.socket)") {
			t.Errorf("%s: exit code %d: %s", flag, code, errs)
		}
	}
	code, _, errs = runs(t, "cluster", "leave", "--yes", "--config", file+".hcl")
	if code == cli.ExitDone || !strings.Contains(errs, file+".hcl") {
		t.Errorf("without the configuration: exit code %d: %s", code, errs)
	}
}
