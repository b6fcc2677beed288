// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package span

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/allocnet/allocnet/cluster/route"
)

// TestFiltered: what drops packets is a problem soon after a pool is there, and within a minute of
// a change.
func TestFiltered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t, Settings{})
		h.dropped = []string{"iptables drops them"}
		h.keeps(true, config(t, "routed"))
		end := h.run(t)
		defer end()
		settle()
		requireText(t, "problems", h.kinds(), "filtered")
		requireText(t, "text", h.Status()[0].Problems[0].Text, "iptables drops them")
		h.set(func() { h.dropped = nil })
		time.Sleep(filterPause + time.Second)
		synctest.Wait()
		requireText(t, "problems without a rule", h.kinds(), "")
	})
}

// TestFiltering: the filters get what passes: pools with routes, and those on record as far as their
// rules were made before; when they have changed, and when the interfaces of pools have.
func TestFiltering(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t, Settings{})
		h.left = true
		h.table.applied["old"] = ""
		h.inUse = true
		h.keeps(true, configOf(t, "web", "routed", "10.94.0.0/16"), configOf(t, "level", "flat", "10.93.0.0/16"))
		end := h.run(t)
		defer end()
		looks()
		requireText(t, "before the store answers", h.filterings(), "report , spared old web")
		h.peers <- answer{}
		looks()
		requireText(t, "at first", h.filterings(), "report web, spared old")
		if h.watched.Load() {
			t.Error("the rules are watched although nothing is kept in them")
		}
		h.Configure(Settings{Accept: true})
		looks()
		requireText(t, "with accept", h.filterings(), "accept web, spared old")
		h.table.changes <- []string{"web"}
		looks()
		requireText(t, "of another change", h.filterings(), "")
		h.set(func() { h.interfaces = []string{"bridge0"} })
		h.table.changes <- []string{"web"}
		looks()
		requireText(t, "with an interface", h.filterings(), "accept web, spared old")
		time.Sleep(watchPause)
		h.disturb <- struct{}{}
		looks()
		requireText(t, "after others' changes", h.filterings(), "accept web, spared old")
		h.set(func() { h.unfiltered = errors.New("iptables fails") })
		h.keeps(true, configOf(t, "web", "vxlan", "10.94.0.0/16"))
		h.Kick()
		looks()
		requireText(t, "failure", h.Status()[0].Problems[0].Text, "iptables fails")
		h.set(func() { h.inUse = false })
		h.keeps(true)
		h.filterings()
		h.Kick()
		looks()
		requireText(t, "without networks", h.filterings(), "accept , spared ")
	})
}

// TestFilteringWithoutNomad: what lets packets of a pool through stays as it is until it is known at which address other
// hosts reach this one, and is looked at as soon as it is.
func TestFilteringWithoutNomad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t, Settings{Accept: true})
		h.dropped = []string{"iptables drops them"}
		h.nomad.set(errors.New("no servers"))
		h.keeps(true, config(t, "routed"))
		end := h.run(t)
		defer end()
		h.peers <- answer{}
		time.Sleep(3 * filterPause)
		synctest.Wait()
		requireText(t, "without Nomad", h.filterings(), "accept , spared web")
		requireText(t, "problems without Nomad", h.kinds(), "address")
		h.nomad.set(nil, node("n1", "10.0.0.2"))
		time.Sleep(2*pendingPause + 2*filterAtLeast)
		synctest.Wait()
		requireText(t, "with Nomad", h.filterings(), "accept web, spared ")
	})
}

// TestFilteringOverlap: a pool that gets no routes, because its subnets have what this host needs, is not let through,
// and nothing is said of what drops its packets.
func TestFilteringOverlap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t, Settings{Accept: true})
		h.dropped = []string{"iptables drops them"}
		h.table.apply = route.ErrOverlap
		h.keeps(true, config(t, "routed"))
		end := h.run(t)
		defer end()
		h.peers <- answer{}
		looks()
		requireText(t, "with an overlap", h.filterings(), "accept , spared ")
		requireText(t, "problems", h.kinds(), "kernel")
		h.table.fail(nil)
		time.Sleep(applyPause)
		looks()
		requireText(t, "without", h.filterings(), "accept web, spared ")
		h.table.fail(route.ErrOverlap)
		time.Sleep(applyPause)
		looks()
		requireText(t, "with one again", h.filterings(), "accept , spared ")
	})
}

// TestFiltersStay: what cannot be removed is a problem also without pools.
func TestFiltersStay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t, Settings{})
		h.left = true
		h.unfiltered = errors.New("the chain stays")
		h.keeps(true)
		end := h.run(t)
		defer end()
		time.Sleep(findPause)
		looks()
		requireText(t, "problems", h.kinds(), "filtered")
		requireText(t, "text", h.Status()[0].Problems[0].Text, "the chain stays")
		h.set(func() { h.unfiltered = nil })
		time.Sleep(filterPause)
		looks()
		requireText(t, "problems when it is removed", h.kinds(), "")
	})
}

// filterings returns what the filters should have done the last time since it was called.
func (h *host) filterings() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	last := ""
	for _, f := range h.filtered {
		last = ""
		var names []string
		for _, c := range f.Pools {
			names = append(names, c.Pool)
		}
		if f.Node.IsValid() != (len(f.Pools) > 0) {
			last = "with the node " + f.Node.String() + ": "
		}
		last += map[bool]string{true: "accept", false: "report"}[f.Accept] + " " + strings.Join(names, " ") + ", spared " + strings.Join(f.Spared, " ")
	}
	h.filtered = nil
	return last
}

// looks waits for the next look at the filters.
func looks() {
	time.Sleep(2 * filterAtLeast)
	synctest.Wait()
}
