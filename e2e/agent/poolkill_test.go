// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package agent

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/internal/netns"
	"github.com/allocnet/allocnet/internal/sandbox"
)

const (
	killIDs    = 4
	killRounds = 40
)

// TestLongPoolKilled kills the agent, the command line and the plugins that it executes at random
// instants beside a pool. When each interrupted call was repeated, each lease is in a namespace,
// and the address of each namespace is leased.
func TestLongPoolKilled(t *testing.T) {
	k := &killer{host: newHost(t), dir: t.TempDir(), within: map[string]time.Duration{}}
	seed := sandbox.Number("ALLOCNET_POOL_SEED", uint64(time.Now().UnixNano()))
	t.Logf("ALLOCNET_POOL_SEED=%d", seed)
	k.random = rand.New(rand.NewPCG(seed, 0))
	sandbox.WriteFile(t, k.conf+"/60-pooled.conflist", fmt.Sprintf(`{"cniVersion": "1.0.0", "name": "pooled", "plugins": [{"type": "bridge", "bridge": "storage0",
		"ipam": {"type": "allocnet-ipam", "pool": "p", "cooldown": "0s", "ranges": [{"subnet": "10.94.0.0/24"}], "blockSize": {"4": 30},
		 "stateDir": %[1]q, "dataDir": "%[1]s/leases", "configDir": "%[1]s/none"}}]}`, k.dir))
	k.start()
	last := map[string][]string{}
	for i := range killRounds {
		id := fmt.Sprintf("killed-%d", i%killIDs)
		last[id] = []string{"attach", id, "--primary", "pooled"}
		if i/killIDs%3 == 2 {
			last[id] = []string{"detach", id}
		}
		k.interrupt([]string{"auto", "plugins"}[i%2], last[id]...)
		if i%8 == 7 {
			k.end(unix.SIGKILL)
			k.start()
		}
	}
	t.Logf("%d of %d calls were killed", k.killed, killRounds)
	if k.killed < killRounds/4 {
		t.Errorf("%d of %d calls were killed, want more", k.killed, killRounds)
	}
	for _, id := range slices.Sorted(maps.Keys(last)) {
		k.must(last[id]...)
	}
	k.requireConsistent()
	for id := range last {
		k.must("detach", id)
	}
	k.must("gc")
	k.requireConsistent()
	if left := k.leases(); len(left) > 0 {
		t.Errorf("leases are left: %v", left)
	}
}

// killer interrupts calls on a host.
type killer struct {
	*host
	dir    string
	random *rand.Rand
	killed int
	// within is when calls of a kind are killed at the latest: about as long as they take on
	// this machine, now.
	within map[string]time.Duration
}

// interrupt begins a call with an executor, and kills it with its plugins.
func (k *killer) interrupt(executor string, args ...string) {
	k.Helper()
	kind := executor + args[0]
	limit := cmp.Or(k.within[kind], 100*time.Millisecond)
	cmd := exec.Command(binary, args...)
	cmd.Env = append(k.env(), "ALLOCNET_EXECUTOR="+executor)
	begun := time.Now()
	if err := cmd.Start(); err != nil {
		k.Fatal(err)
	}
	timer := time.AfterFunc(time.Duration(k.random.Int64N(int64(limit))), func() {
		_ = cmd.Process.Kill()
		killPlugins(sandbox.OwnIPAM, "bridge")
	})
	if cmd.Wait() == nil {
		k.within[kind] = time.Since(begun)
	} else {
		k.killed++
		k.within[kind] = limit * 5 / 4
	}
	timer.Stop()
}

// killPlugins kills the processes of this sandbox that execute a program.
func killPlugins(programs ...string) {
	all, _ := filepath.Glob("/proc/[0-9]*/comm")
	for _, path := range all {
		name, err := os.ReadFile(path)
		pid, errNumber := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		if err == nil && errNumber == nil && slices.Contains(programs, strings.TrimSpace(string(name))) {
			_ = unix.Kill(pid, unix.SIGKILL) // it may have ended
		}
	}
}

func (k *killer) must(args ...string) {
	k.Helper()
	if out, code := k.allocnet(args...); code != 0 {
		k.Fatalf("allocnet %v: exit code %d: %s", args, code, out)
	}
}

// leases returns the addresses that are leased.
func (k *killer) leases() []string {
	k.Helper()
	entries, err := os.ReadDir(k.dir + "/leases/p")
	if err != nil {
		k.Fatal(err)
	}
	var all []string
	for _, entry := range entries {
		if _, err := netip.ParseAddr(entry.Name()); err == nil {
			all = append(all, entry.Name())
		}
	}
	slices.Sort(all)
	return all
}

// requireConsistent requires that the leases are the addresses of the namespaces.
func (k *killer) requireConsistent() {
	k.Helper()
	used, err := netns.Addresses()
	if err != nil {
		k.Fatal(err)
	}
	var inNamespaces []string
	for address := range used {
		if netip.MustParsePrefix("10.94.0.0/24").Contains(address) {
			inNamespaces = append(inNamespaces, address.String())
		}
	}
	slices.Sort(inNamespaces)
	if leases := k.leases(); !slices.Equal(leases, inNamespaces) {
		k.Errorf("the leases are %v, and namespaces have %v", leases, inNamespaces)
	}
	if out, code := k.allocnet("ipam", "check"); code != 0 {
		k.Errorf("ipam check: exit code %d: %s", code, out)
	}
}
