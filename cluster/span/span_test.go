// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package span

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/allocnet/allocnet/cluster/ipam/peers"
	"github.com/allocnet/allocnet/cluster/route"
)

// settle lets what is due happen, but for what waits for seconds.
func settle() {
	time.Sleep(2 * applyAtLeast)
	synctest.Wait()
}

func requireText(t *testing.T, what, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("%s: %q, want %q", what, got, want)
	}
}

// kinds are the problems of the only pool.
func (h *host) kinds() string {
	var all []string
	for _, s := range h.Status() {
		for _, p := range s.Problems {
			all = append(all, string(p.Kind))
		}
	}
	return strings.Join(all, " ")
}

// TestRoutes: the others are told where this host is once, and the routes follow the blocks.
func TestRoutes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t, Settings{})
		h.keeps(true, config(t, "vxlan"))
		end := h.run(t)
		settle()
		requireText(t, "calls before the store answers", h.table.took(), "device web 10.0.0.1")
		requireText(t, "told", h.pool.got(), "10.0.0.1 fe80::1 02:00:00:00:00:01")
		h.peers <- answer{blocks: peers.Blocks{Remote: []peers.Remote{block("10.91.0.0/26", "n1", "10.0.0.2", 5), block("10.91.0.64/26", "n2", "10.0.0.3", 6)}}}
		settle()
		requireText(t, "routes", h.table.routes("web"), "10.91.0.0/26 via 10.0.0.2, 10.91.0.64/26 via 10.0.0.3")
		h.peers <- answer{blocks: peers.Blocks{Remote: []peers.Remote{block("10.91.0.64/26", "n2", "10.0.0.3", 6)}}}
		settle()
		requireText(t, "routes without a block", h.table.routes("web"), "10.91.0.64/26 via 10.0.0.3")
		requireText(t, "told again", h.pool.got(), "")
		s := h.Status()
		if len(s) != 1 || len(s[0].Nodes) != 1 || s[0].Nodes[0].Name != "name-n2" || s[0].MTU != 1450 || s[0].Applied.IsZero() || s[0].Listed.IsZero() || len(s[0].Problems) > 0 {
			t.Errorf("status %+v", s)
		}
		end()
		requireText(t, "routes after the end", h.table.routes("web"), "10.91.0.64/26 via 10.0.0.3")
		if calls := h.table.took(); strings.Contains(calls, "remove") {
			t.Errorf("calls %s", calls)
		}
	})
}

// routings counts what was routed.
type routings struct {
	mu sync.Mutex
	n  int
}

func (*routings) Applied(string, int, int, int) {}

func (*routings) Probed(string, time.Duration, error) {}

func (r *routings) Routed(string, time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.n++
}

// TestRouted: the time until blocks are routed is counted if they have changed, not for each answer of the store.
func TestRouted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r routings
		h := newHost(t, Settings{})
		h.config.Observer = &r
		h.keeps(true, config(t, "routed"))
		end := h.run(t)
		first, second := block("10.91.0.0/26", "n1", "10.0.0.2", 5), block("10.91.0.64/26", "n2", "10.0.0.3", 6)
		for _, remote := range [][]peers.Remote{{first}, {first}, {first, second}, {first, second}} {
			h.peers <- answer{blocks: peers.Blocks{Remote: remote}}
			time.Sleep(applyPause + time.Second)
		}
		end()
		if r.n != 2 {
			t.Errorf("counted %d times, want 2", r.n)
		}
	})
}

// TestStoreFails: an error of the store changes nothing, also if it is the first answer.
func TestStoreFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t, Settings{})
		h.keeps(true, config(t, "routed"))
		end := h.run(t)
		defer end()
		h.peers <- answer{err: errors.New("503")}
		settle()
		requireText(t, "problems", h.kinds(), "store")
		if calls := h.table.took(); strings.Contains(calls, "apply") {
			t.Errorf("calls without an answer: %s", calls)
		}
		h.peers <- answer{blocks: peers.Blocks{Remote: []peers.Remote{block("10.91.0.0/26", "n1", "10.0.0.2", 5)}}}
		settle()
		requireText(t, "problems", h.kinds(), "")
		h.peers <- answer{err: errors.New("503")}
		time.Sleep(time.Minute)
		requireText(t, "routes", h.table.routes("web"), "10.91.0.0/26 via 10.0.0.2")
		requireText(t, "problems", h.kinds(), "store")
	})
}

// TestStorePauses: the pause after a failure of the store grows, and is short again after an answer.
func TestStorePauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t, Settings{})
		h.keeps(true, config(t, "routed"))
		end := h.run(t)
		defer end()
		settle()
		failed := answer{err: errors.New("503")}
		h.peers <- failed
		for _, test := range []struct {
			next answer
			want time.Duration
		}{{failed, 1}, {failed, 2}, {failed, 4}, {failed, 8}, {failed, 10}, {answer{}, 10}, {failed, 0}, {failed, 1}} {
			began := time.Now()
			h.peers <- test.next
			if took := time.Since(began); took != test.want*time.Second {
				t.Errorf("asked again after %s, want %ds", took, test.want)
			}
		}
	})
}

// TestManyNodes: nodes that are not known by the first questions, as the list has other addresses of them, are
// asked for soon. Until then the routes that an earlier agent has made to them stay.
func TestManyNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t, Settings{})
		h.keeps(true, config(t, "routed"))
		const count = 8 * mostSingle
		var remote []peers.Remote
		var all []Node
		for i := range count {
			n := node(fmt.Sprint("m", i), fmt.Sprint("10.1.0.", i))
			second := netip.MustParseAddr(fmt.Sprint("10.2.0.", i))
			n.Addresses = append(n.Addresses, second)
			all, remote = append(all, n), append(remote, block(fmt.Sprintf("10.91.%d.0/26", i), n.ID, second.String(), 5))
		}
		h.nomad.set(nil, all...)
		h.nomad.short = true
		end := h.run(t)
		defer end()
		settle() // else the blocks may come before the first step, and be told of after it: two steps ask for all nodes
		h.peers <- answer{blocks: peers.Blocks{Remote: remote}}
		settle()
		if calls := h.table.took(); strings.Contains(calls, "apply") {
			t.Errorf("calls before all nodes are known: %s", calls)
		}
		time.Sleep(2 * pendingPause)
		if got := strings.Count(h.table.routes("web"), "via"); got != count {
			t.Errorf("%d routes, want %d", got, count)
		}
		h.peers <- answer{}
		settle()
		h.nomad.set(nil, all...)
		h.peers <- answer{blocks: peers.Blocks{Remote: remote}}
		settle()
		if got := strings.Count(h.table.routes("web"), "via"); got != 4*mostSingle {
			t.Errorf("%d routes after the first questions, want %d", got, 4*mostSingle)
		}
		time.Sleep(2 * pendingPause)
		if got := strings.Count(h.table.routes("web"), "via"); got != count {
			t.Errorf("%d routes after the second questions, want %d", got, count)
		}
	})
}

// TestFirstApplyFails: after a failure of the kernel, the routes of an earlier agent are still not touched before it
// is known of each block whether it is accepted.
func TestFirstApplyFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t, Settings{})
		h.keeps(true, config(t, "routed"))
		h.table.fail(errors.New("EPERM"))
		end := h.run(t)
		defer end()
		first := block("10.91.0.0/26", "n1", "10.0.0.2", 5)
		h.peers <- answer{blocks: peers.Blocks{Remote: []peers.Remote{first}}}
		settle()
		if calls := h.table.took(); !strings.Contains(calls, "apply") {
			t.Errorf("calls with a failure: %s", calls)
		}
		h.table.fail(nil)
		h.nomad.set(errors.New("503"))
		h.peers <- answer{blocks: peers.Blocks{Remote: []peers.Remote{first, block("10.91.0.64/26", "n2", "10.0.0.3", 6)}}}
		settle()
		if calls := h.table.took(); strings.Contains(calls, "apply") {
			t.Errorf("calls while a node is not known: %s", calls)
		}
	})
}

// TestKernelChanges: what happens to the kernel's tables is noticed at once, and at the latest
// after 10 s. Many changes are one.
func TestKernelChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t, Settings{})
		h.keeps(true, config(t, "routed"))
		end := h.run(t)
		defer end()
		h.peers <- answer{}
		settle()
		h.table.took()
		for range 5 {
			h.table.changes <- []string{"web"}
		}
		settle()
		if n := strings.Count(h.table.took(), "apply"); n < 1 || n > 2 {
			t.Errorf("applied %d times after 5 changes at once", n)
		}
		time.Sleep(applyPause + time.Second)
		requireText(t, "calls without a change", h.table.took(), "device web 10.0.0.1, apply web")
	})
}

// TestOneLook: an event, or changed blocks, are one look at the kernel's tables, and an answer of the store that
// says nothing new is none: pools wait for each other there.
func TestOneLook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t, Settings{})
		h.keeps(true, config(t, "vxlan"))
		end := h.run(t)
		defer end()
		first, second := block("10.91.0.0/26", "n1", "10.0.0.2", 5), block("10.91.0.64/26", "n2", "10.0.0.3", 6)
		looks := func(what string, b peers.Blocks, want string) {
			t.Helper()
			h.table.took()
			h.peers <- answer{blocks: b}
			settle()
			requireText(t, what, h.table.took(), want)
		}
		invalid := func(text string) []peers.Invalid {
			return []peers.Invalid{{Path: "allocnet/ipam/web/b/x", Err: errors.New(text)}}
		}
		settle()
		looks("the first answer, without blocks", peers.Blocks{}, "apply web")
		looks("a block", peers.Blocks{Remote: []peers.Remote{first}}, "apply web")
		looks("the same block", peers.Blocks{Remote: []peers.Remote{first}}, "")
		looks("another one", peers.Blocks{Remote: []peers.Remote{first, second}}, "apply web")
		looks("an own one", peers.Blocks{Remote: []peers.Remote{first, second}, Own: []netip.Prefix{netip.MustParsePrefix("10.91.0.128/26")}}, "apply web")
		looks("what is no block", peers.Blocks{Remote: []peers.Remote{first}, Invalid: invalid("checksum")}, "apply web")
		looks("the same", peers.Blocks{Remote: []peers.Remote{first}, Invalid: invalid("checksum")}, "")
		looks("with another reason", peers.Blocks{Remote: []peers.Remote{first}, Invalid: invalid("version")}, "apply web")
		h.table.changes <- []string{"web"}
		settle()
		requireText(t, "an event", h.table.took(), "apply web")
		for _, state := range []struct {
			address, want string
			device        error
		}{{"10.0.0.9", "address device", errors.New("no interface has it")}, {"10.0.0.1", "", nil}} {
			h.set(func() { h.address = netip.MustParseAddr(state.address) })
			h.table.mu.Lock()
			h.table.device = state.device
			h.table.mu.Unlock()
			h.table.changes <- []string{"web"}
			settle()
			requireText(t, "problems with "+state.address, h.kinds(), strings.TrimSpace(state.want+" invalid"))
		}
	})
}

// TestChangeOfOnePool: what happens to the routes of a pool is no reason to look at those of the others.
func TestChangeOfOnePool(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t, Settings{})
		h.keeps(true, config(t, "routed"), configOf(t, "db", "routed", "10.92.0.0/16"))
		end := h.run(t)
		defer end()
		settle()
		h.peers <- answer{}
		h.peers <- answer{}
		settle()
		h.table.took()
		h.table.changes <- []string{"db"}
		settle()
		requireText(t, "calls after a change of one", h.table.took(), "apply db")
		h.table.changes <- []string{"db", "web"}
		settle()
		if calls := h.table.took(); !strings.Contains(calls, "apply db") || !strings.Contains(calls, "apply web") {
			t.Errorf("calls after a change of both: %s", calls)
		}
	})
}

// TestOwnAddress: it is Nomad's unless configured, a change is followed, and without one the
// last stays.
func TestOwnAddress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t, Settings{})
		h.keeps(true, config(t, "routed"))
		h.nomad.self = Node{}
		end := h.run(t)
		defer end()
		settle()
		requireText(t, "unknown", h.kinds()+h.pool.got(), "address")
		h.nomad.mu.Lock()
		h.nomad.self = node("n0", "10.0.0.1")
		h.nomad.mu.Unlock()
		time.Sleep(applyPause + time.Second)
		requireText(t, "Nomad's", h.kinds()+h.pool.got(), "10.0.0.1 fe80::1 02:00:00:00:00:01")
		h.nomad.set(errors.New("503"))
		time.Sleep(2 * selfAgain)
		requireText(t, "Nomad does not answer", h.kinds()+h.pool.got(), "")
		h.set(func() { h.address = netip.MustParseAddr("10.0.0.7") })
		h.table.changes <- []string{"web"}
		settle()
		requireText(t, "no interface has the address", h.kinds()+h.pool.got(), "address")
		h.table.took()
		time.Sleep(applyPause + time.Second)
		if calls := h.table.took(); !strings.Contains(calls, "device web 10.0.0.1") {
			t.Errorf("calls while no interface has the address: %s, want the device kept", calls)
		}
		h.nomad.mu.Lock()
		h.nomad.self, h.nomad.err = node("n0", "10.0.0.7"), nil
		h.nomad.mu.Unlock()
		time.Sleep(3 * selfSoon)
		requireText(t, "soon after Nomad has another one", h.kinds()+h.pool.got(), "10.0.0.7 fe80::1 02:00:00:00:00:01")
		h.set(func() { h.address = netip.MustParseAddr("10.0.0.6") })
		h.table.changes <- []string{"web"}
		settle()
		h.nomad.mu.Lock()
		h.nomad.self = node("n0", "10.0.0.6")
		h.nomad.mu.Unlock()
		time.Sleep(3 * selfSoon)
		requireText(t, "soon after an answer that is wrong by now", h.kinds()+h.pool.got(), "10.0.0.6 fe80::1 02:00:00:00:00:01")
		h.nomad.mu.Lock()
		h.nomad.self = node("n0", "10.0.0.8")
		h.nomad.mu.Unlock()
		time.Sleep(2 * selfAgain)
		requireText(t, "an address of no interface", h.kinds()+h.pool.got(), "address")
		h.set(func() { h.address = h.nomad.self.Addresses[0] })
		time.Sleep(2 * selfSoon)
		requireText(t, "changed", h.kinds()+h.pool.got(), "10.0.0.8 fe80::1 02:00:00:00:00:01")
		h.set(func() { h.address = node("", "10.0.0.9").Addresses[0] })
		h.Configure(Settings{Address: h.address})
		settle()
		requireText(t, "configured", h.kinds()+h.pool.got(), "10.0.0.9 fe80::1 02:00:00:00:00:01")
	})
}

// TestUnguarded: a host that cannot keep others out of its VXLAN says so, and has its routes.
func TestUnguarded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t, Settings{})
		h.keeps(true, config(t, "vxlan"))
		h.table.unguarded = errors.New("no nftables")
		end := h.run(t)
		defer end()
		h.peers <- answer{blocks: peers.Blocks{Remote: []peers.Remote{block("10.91.0.0/26", "n1", "10.0.0.2", 5)}}}
		settle()
		requireText(t, "problems", h.kinds(), "unguarded")
		requireText(t, "routes", h.table.routes("web"), "10.91.0.0/26 via 10.0.0.2")
	})
}

// TestDeviceFails: the others are not told of a device that is not there, and the pool is told
// again after an error.
func TestDeviceFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t, Settings{})
		h.keeps(true, config(t, "vxlan"))
		h.table.device = errors.New("of another program")
		h.pool.err = errors.New("disk full")
		end := h.run(t)
		defer end()
		settle()
		requireText(t, "problems", h.kinds()+h.pool.got(), "device")
		h.peers <- answer{blocks: peers.Blocks{Remote: []peers.Remote{block("10.91.0.0/26", "n1", "10.0.0.2", 5)}}}
		settle()
		requireText(t, "routes without the device", h.table.routes("web"), "10.91.0.0/26 via 10.0.0.2")
		h.table.mu.Lock()
		h.table.device = nil
		h.table.mu.Unlock()
		time.Sleep(applyPause + time.Second)
		requireText(t, "problems", h.kinds()+h.pool.got(), "endpoint")
		h.pool.mu.Lock()
		h.pool.err = nil
		h.pool.mu.Unlock()
		time.Sleep(applyPause + time.Second)
		requireText(t, "told", h.kinds()+h.pool.got(), "10.0.0.1 fe80::1 02:00:00:00:00:01")
	})
}

// TestStateLost: a pool that has lost where this host is reached is told again, although nothing
// happens.
func TestStateLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t, Settings{})
		h.keeps(true, config(t, "vxlan"))
		end := h.run(t)
		defer end()
		settle()
		const told = "10.0.0.1 fe80::1 02:00:00:00:00:01"
		requireText(t, "told", h.pool.got(), told)
		h.pool.lose()
		time.Sleep(applyPause + time.Second)
		requireText(t, "told again", h.kinds()+h.pool.got(), told)
	})
}

// TestPoolsChange: a flat pool is none of it; the routes of a pool are removed when it becomes
// flat, or when no network uses it and no attachment needs it, and not because of an error.
func TestPoolsChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t, Settings{})
		h.keeps(true, config(t, "flat"))
		end := h.run(t)
		defer end()
		settle()
		requireText(t, "calls of a flat pool", h.table.took(), "")
		start := func() {
			h.keeps(true, config(t, "routed"))
			h.Kick()
			h.peers <- answer{}
			settle()
			if calls := h.table.took(); !strings.Contains(calls, "apply web") || strings.Contains(calls, "remove") {
				t.Errorf("calls of a pool that appears: %s", calls)
			}
		}
		start()
		h.keeps(true, config(t, "flat"))
		h.Kick()
		settle()
		requireText(t, "calls of a pool that becomes flat", h.table.took(), "remove web")
		start()
		h.keeps(true, config(t, "vxlan"))
		h.Kick()
		settle()
		requireText(t, "calls of a pool whose mode changes", h.table.took(), "device web 10.0.0.1")
		h.peers <- answer{}
		settle()
		h.keeps(false)
		h.Kick()
		settle()
		if calls := h.table.took(); strings.Contains(calls, "remove") {
			t.Errorf("calls while a pool cannot be read: %s", calls)
		}
		h.set(func() { h.inUse = true })
		h.keeps(true)
		h.Kick()
		settle()
		if calls := h.table.took(); strings.Contains(calls, "remove") || len(h.Status()) != 1 {
			t.Errorf("calls while an attachment needs the routes: %s", calls)
		}
		h.set(func() { h.inUse, h.unknown = false, errors.New("EIO") })
		time.Sleep(findPause + time.Second)
		if calls := h.table.took(); strings.Contains(calls, "remove") || len(h.Status()) != 1 {
			t.Errorf("calls while it is not known whether one does: %s", calls)
		}
		h.set(func() { h.unknown = nil })
		time.Sleep(findPause + time.Second)
		if calls := h.table.took(); !strings.HasSuffix(calls, "remove web") || len(h.Status()) != 0 {
			t.Errorf("calls without a network: %s", calls)
		}
	})
}

// TestOverlap: a pool with a part of the subnets of another one gets no routes: each would remove those of the
// other as stale, again and again. The one that has routes keeps them, unless no network uses it.
func TestOverlap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t, Settings{})
		h.left = true
		web, wide, other := config(t, "routed"), configOf(t, "any", "vxlan", "10.0.0.0/8"), configOf(t, "other", "routed", "10.91.0.0/24")
		h.keeps(true, web)
		end := h.run(t)
		defer end()
		h.peers <- answer{}
		settle()
		h.table.took()
		h.keeps(true, wide, web, other, configOf(t, "flat", "flat", "10.91.0.0/16"))
		h.Kick()
		time.Sleep(time.Minute)
		if calls := h.table.took(); !strings.Contains(calls, "apply web") || strings.Contains(calls, "any") || strings.Contains(calls, "other") || strings.Contains(calls, "remove") {
			t.Errorf("calls %s", calls)
		}
		requireText(t, "problems", h.kinds(), "overlap overlap")
		want := "pool any: subnets of two pools overlap: this one has [10.0.0.0/8], and the pool web, which has its routes, [10.91.0.0/16]: change the ranges, or remove the network of one"
		if got := h.NotReady(); len(got) != 2 || got[0] != want {
			t.Errorf("not ready: %q", got)
		}
		h.set(func() { h.inUse = true })
		h.keeps(false, wide)
		h.Kick()
		settle()
		requireText(t, "problems while a pool cannot be read", h.kinds(), "overlap")
		h.keeps(true, wide)
		h.Kick()
		settle()
		if calls := h.table.took(); !strings.Contains(calls, "remove web, device any") {
			t.Errorf("calls without a network of the other: %s", calls)
		}
		requireText(t, "problems without a network of the other", h.kinds(), "")
	})
}

// TestTableFails: a failure of all pools is not told as one of a pool without a network.
func TestTableFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		h := newHost(t, Settings{})
		h.config.Table = func(bool) (Table, error) { return nil, ErrLocked }
		h.config.Logger = hclog.New(&hclog.LoggerOptions{Output: &log})
		end := h.run(t)
		settle()
		end()
		if !strings.Contains(log.String(), "the routes to other hosts are not kept: error=") {
			t.Errorf("log: %s", log.String())
		}
	})
}

// TestLeftRoutes: what an earlier agent left of a pool that no network uses is removed.
func TestLeftRoutes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t, Settings{})
		h.left, h.table.applied["old"] = true, "10.91.0.0/26 via 10.0.0.2"
		end := h.run(t)
		defer end()
		settle()
		requireText(t, "calls", h.table.took(), "remove old")
	})
}

// TestDamagedRecord: without a record that can be read, the routes of a pool that has become flat are those in
// its subnets, and those of a pool without a network stay.
func TestDamagedRecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t, Settings{})
		h.left, h.table.damaged = true, true
		h.table.applied["web"], h.table.applied["old"] = "10.91.0.0/26 via 10.0.0.2", "10.92.0.0/26 via 10.0.0.2"
		h.keeps(true, config(t, "flat"))
		end := h.run(t)
		defer end()
		settle()
		requireText(t, "calls", h.table.took(), "remove web, in [10.91.0.0/16]")
	})
}

// TestReplacedBlocks: those of a host with this one's address are shown, and no problem.
func TestReplacedBlocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t, Settings{})
		h.keeps(true, config(t, "routed"))
		end := h.run(t)
		defer end()
		h.table.refuse["10.91.0.0/26"] = string(route.Replaced)
		h.peers <- answer{blocks: peers.Blocks{Remote: []peers.Remote{block("10.91.0.0/26", "n1", "10.0.0.2", 5)}}}
		settle()
		requireText(t, "problems", h.kinds(), "")
		if s := h.Status(); len(s[0].Nodes) != 1 || s[0].Nodes[0].Routes[0].State != route.Replaced || s[0].Nodes[0].Probe.Target.IsValid() {
			t.Errorf("status %+v", s)
		}
	})
}

// TestKernelFails: the last known state is shown, and the problem.
func TestKernelFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t, Settings{})
		h.keeps(true, config(t, "routed"))
		end := h.run(t)
		defer end()
		h.table.refuse["10.91.0.64/26"] = "not on-link"
		h.peers <- answer{blocks: peers.Blocks{
			Remote:  []peers.Remote{block("10.91.0.0/26", "n1", "10.0.0.2", 5), block("10.91.0.64/26", "n2", "10.0.0.3", 6)},
			Invalid: []peers.Invalid{{Path: "allocnet/ipam/web/b/x", Err: errors.New("checksum")}},
		}}
		settle()
		requireText(t, "problems", h.kinds(), "invalid unrouted")
		h.table.mu.Lock()
		h.table.apply = context.DeadlineExceeded
		h.table.mu.Unlock()
		time.Sleep(applyPause + time.Second)
		requireText(t, "problems", h.kinds(), "kernel invalid unrouted")
		requireText(t, "not ready", strings.Join(h.NotReady(), "; "), "pool web: context deadline exceeded")
		if s := h.Status(); len(s[0].Nodes) != 2 {
			t.Errorf("nodes %+v", s[0].Nodes)
		}
	})
}
