// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package ipam

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/containernetworking/cni/pkg/types"
	"golang.org/x/sync/errgroup"

	"github.com/allocnet/allocnet/internal/sandbox"
)

// hundred has 100 addresses in two blocks, and no cooldown.
var hundred = map[string]any{"cooldown": "0s", "ranges": []any{map[string]any{"subnet": "10.60.0.0/24", "rangeStart": "10.60.0.10", "rangeEnd": "10.60.0.109"}}}

// TestConcurrent: 100 processes at once fill a pool of 100 addresses, and none is left for
// another one.
func TestConcurrent(t *testing.T) {
	p := newPool(t, hundred)
	for range 2 { // the second time with all that was freed
		var mu sync.Mutex
		given := map[string]string{}
		each(t, 100, func(id string) error {
			addresses, err := p.add(call{id: id})
			mu.Lock()
			defer mu.Unlock()
			for _, address := range addresses {
				if other := given[address]; other != "" {
					return fmt.Errorf("%s and %s have %s", id, other, address)
				}
				given[address] = id
			}
			return err
		})
		if len(given) != 100 || len(p.leases()) != 100 {
			t.Errorf("%d addresses, and %d leases, want 100", len(given), len(p.leases()))
		}
		_, err := p.add(call{id: "more"})
		requireCode(t, err, types.ErrTryAgainLater, "p")
		_, err = p.run(call{verb: "STATUS"})
		requireCode(t, err, types.ErrPluginNotAvailable, "no free address")
		each(t, 100, func(id string) error {
			_, err := p.run(call{verb: "DEL", id: id})
			return err
		})
	}
}

func each(t *testing.T, n int, do func(id string) error) {
	t.Helper()
	var group errgroup.Group
	for i := range n {
		group.Go(func() error { return do(fmt.Sprintf("c%d", i)) })
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
}

// TestKilled: processes that are killed at any instant leave a pool that works, and of which no
// address is lost.
func TestKilled(t *testing.T) {
	p := newPool(t, hundred)
	seed := sandbox.Number("ALLOCNET_IPAM_SEED", uint64(time.Now().UnixNano()))
	t.Logf("ALLOCNET_IPAM_SEED=%d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	killed := 0
	for i := range 150 {
		c := call{verb: "ADD", id: fmt.Sprintf("c%d", i%20)}
		if i%3 == 2 {
			c.verb = "DEL"
		}
		cmd := p.command(c)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		timer := time.AfterFunc(time.Duration(random.Int64N(int64(12*time.Millisecond))), func() { _ = cmd.Process.Kill() })
		if err := cmd.Wait(); err != nil {
			killed++
		}
		timer.Stop()
		if i%10 == 9 {
			requireRepeatable(t, p, c.id)
		}
	}
	if killed < 20 {
		t.Errorf("%d processes were killed, want more", killed)
	}
	for i := range 20 {
		p.mustRun(call{verb: "DEL", id: fmt.Sprintf("c%d", i)})
	}
	each(t, 100, func(id string) error {
		_, err := p.add(call{id: id})
		return err
	})
	each(t, 100, func(id string) error {
		_, err := p.run(call{verb: "DEL", id: id})
		return err
	})
}

// requireRepeatable repeats ADD after a kill, which gives one address.
func requireRepeatable(t *testing.T, p *pool, id string) {
	t.Helper()
	first := p.mustAdd(call{id: id})
	if again := p.mustAdd(call{id: id}); !slices.Equal(first, again) || len(first) != 1 {
		t.Fatalf("ADD of %s gives %v, and again %v", id, first, again)
	}
}

// TestCooldown: an address that was freed is not given out for a while, and then the one that
// was freed first is.
func TestCooldown(t *testing.T) {
	p := newPool(t, map[string]any{"cooldown": "2s", "ranges": []any{map[string]any{"subnet": "10.60.0.0/30", "gateway": "10.60.0.1"}, map[string]any{"subnet": "10.60.1.0/30"}}})
	first, second := p.mustAdd(call{id: "c1"})[0], p.mustAdd(call{id: "c2"})[0]
	p.mustRun(call{verb: "DEL", id: "c2"})
	began := time.Now()
	_, err := p.add(call{id: "c3"})
	requireCode(t, err, types.ErrTryAgainLater)
	p.mustRun(call{verb: "DEL", id: "c1"})
	var third []string
	sandbox.Eventually(t, "an address is given out again", func() bool {
		if third, err = p.add(call{id: "c3"}); err != nil {
			requireCode(t, err, types.ErrTryAgainLater)
		}
		return err == nil
	})
	if took := time.Since(began); took < 1900*time.Millisecond {
		t.Errorf("after %s, want 2 s", took)
	}
	if third[0] != second {
		t.Errorf("got %s, want %s, which was freed before %s", third[0], second, first)
	}
	p.mustRun(call{verb: "DEL", id: "c3"})
}

// TestDualStackIsWhole: an attachment for which one family has no address keeps none of the
// other.
func TestDualStackIsWhole(t *testing.T) {
	p := newPool(t, map[string]any{"ranges": []any{map[string]any{"subnet": "fd60::/64"}, map[string]any{"subnet": "10.60.0.0/30"}}})
	p.mustAdd(call{id: "c1"})
	_, err := p.add(call{id: "c2"})
	requireCode(t, err, types.ErrTryAgainLater)
	if n := len(p.leases()); n != 2 {
		t.Errorf("%d leases, want those of the first container: %v", n, p.leases())
	}
	p.mustRun(call{verb: "DEL", id: "c1"})
}

// TestGC frees what the runtime does not list, but neither what a namespace has nor what is
// just being added: these may be of another network with the same pool.
func TestGC(t *testing.T) {
	p := newPool(t, hundred)
	valid, used, stale, young := p.mustAdd(call{id: "valid"})[0], p.mustAdd(call{id: "used"})[0], p.mustAdd(call{id: "stale"})[0], p.mustAdd(call{id: "young"})[0]
	for _, address := range []string{valid, used, stale} {
		p.age(address)
	}
	namespace(t, "gc-used")
	sandbox.Run(t, "ip", "-n", "gc-used", "addr", "add", used, "dev", "lo")
	p.mustRun(call{verb: "GC", keys: map[string]any{"cni.dev/valid-attachments": []any{map[string]any{"containerID": "valid", "ifname": "eth0"}}}})
	left := p.leases()
	for address, want := range map[string]bool{valid: true, used: true, stale: false, young: true} {
		if got := left[bare(address)] != ""; got != want {
			t.Errorf("%s has a lease: %t, want %t", address, got, want)
		}
	}
	for _, id := range []string{"valid", "used", "young"} {
		p.mustRun(call{verb: "DEL", id: id})
	}
}

// TestRequested: only reserved addresses can be requested, and others never get them.
func TestRequested(t *testing.T) {
	p := newPool(t, map[string]any{"ranges": []any{map[string]any{"subnet": "10.60.0.0/28"}, map[string]any{"subnet": "fd60::/64"}}, "reserved": []any{"10.60.0.8/30"}})
	for name, c := range map[string]call{
		"CNI_ARGS":      {id: "c1", args: "IP=10.60.0.9"},
		"args":          {id: "c1", keys: map[string]any{"args": map[string]any{"cni": map[string]any{"ips": []any{"10.60.0.9"}}}}},
		"runtimeConfig": {id: "c1", keys: map[string]any{"runtimeConfig": map[string]any{"ips": []any{"10.60.0.9/28"}}}},
	} {
		got := p.mustAdd(c)
		if len(got) != 2 || !slices.Contains(got, "10.60.0.9/28") {
			t.Errorf("%s: got %v, want 10.60.0.9 and an address of the other family", name, got)
		}
		p.mustRun(call{verb: "DEL", id: "c1"})
	}
	for _, address := range []string{"10.60.0.3", "10.60.0.1", "192.0.2.1", "fd60::9"} {
		_, err := p.add(call{id: "c2", args: "IP=" + address})
		requireCode(t, err, types.ErrInvalidNetworkConfig, address)
	}
	for i := range 9 { // all that are neither reserved nor the gateway
		p.mustAdd(call{id: fmt.Sprintf("c%d", i)})
	}
	_, err := p.add(call{id: "more"})
	requireCode(t, err, types.ErrTryAgainLater)
	var failed *types.Error
	if errors.As(err, &failed) {
		t.Log(failed.Msg)
	}
	for i := range 9 {
		p.mustRun(call{verb: "DEL", id: fmt.Sprintf("c%d", i)})
	}
}
