// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package isolation

import (
	"fmt"
	"strings"
	"testing"

	"github.com/allocnet/allocnet/internal/sandbox"
	"github.com/allocnet/allocnet/isolation"
)

// TestLevels: what levels deny is denied from the first packet on, rules allow what they name, the host reaches all, and the last detach
// leaves the host as it was.
func TestLevels(t *testing.T) {
	h := newHost(t)
	h.rules(`
allow "strict reaches apart" {
  from { network = "strict" }
  to   { network = "apart" }
  ports = ["80/tcp"]
}
`)
	places := map[string]place{}
	for _, id := range []string{"open-1", "open-2", "apart-1", "apart-2", "strict-1", "strict-2", "pair-1", "pair-2"} {
		network, _, _ := strings.Cut(id, "-")
		places[id] = h.serve(h.attach(id, network))
	}
	published := h.serve(h.attach("published", "strict", "-p", "8080:80"))
	outside := place{name: "the host", netns: own}
	var probes []probe
	for from, a := range places {
		for to, b := range places {
			if from == to {
				continue
			}
			one, _, _ := strings.Cut(from, "-")
			other, _, _ := strings.Cut(to, "-")
			want := one == other && one != "strict" || one == "strict" && other == "apart"
			probes = append(probes, all(a, b, want)...)
		}
		probes = append(probes, all(outside, a, true)...)
	}
	for _, a := range []string{"open-1", "apart-1", "strict-1", "pair-1"} {
		probes = append(probes, probe{places[a], "10.77.0.1:8080", true}, probe{places[a], "[fd00:77::1]:8080", true})
		probes = append(probes, all(places[a], published, false)...)
	}
	h.require(probes)
	if missing := h.must("repair", "--dry-run"); strings.Contains(missing, "lacks") {
		t.Error(missing)
	}
}

// TestRulesAreReplaced: without an agent a rule holds after the next attach or repair, and one with a mistake keeps isolated networks from
// being attached, while what was in force stays.
func TestRulesAreReplaced(t *testing.T) {
	h := newHost(t)
	one, two := h.serve(h.attach("one", "strict")), h.serve(h.attach("two", "strict"))
	h.require(all(one, two, false), all(two, one, false))
	rule := "allow \"within\" {\n  from { network = \"strict\" }\n  to   { network = \"strict\" }\n}\n"
	h.rules(rule)
	h.must("repair")
	h.require(all(one, two, true), all(two, one, true))
	h.rules(strings.Replace(rule, "network", "net", 1))
	h.refuse(isolation.DefaultFile+":2", "attach", "--primary", "strict", "three")
	h.refuse(isolation.DefaultFile+":2", "repair")
	h.require(all(one, two, true))
	h.rules(strings.Replace(rule, "strict", "other", 1))
	h.serve(h.attach("three", "strict"))
	h.require(all(one, two, false), all(two, one, false))
}

// TestLevelIsRaised: a network whose level is raised while allocations run keeps them apart after a repair.
func TestLevelIsRaised(t *testing.T) {
	h := newHost(t)
	one, two := h.serve(h.attach("one", "open")), h.serve(h.attach("two", "open"))
	h.require(all(one, two, true))
	h.network("open", isolation.Strict)
	h.must("repair")
	h.require(all(one, two, false), all(two, one, false), all(place{"the host", own, nil}, one, true))
	h.network("open", "")
	h.must("repair")
	h.require(all(one, two, true), all(two, one, true))
}

// TestFlushIsRepaired: a repair brings back all of what was flushed, and any part of it.
func TestFlushIsRepaired(t *testing.T) {
	h := newHost(t)
	one, two := h.serve(h.attach("one", "strict")), h.serve(h.attach("two", "apart"))
	for _, damage := range []string{
		"nft delete table inet allocnet-isolation; delete table bridge allocnet-isolation", "nft delete table bridge allocnet-isolation",
		"nft flush set bridge allocnet-isolation guarded", "nft flush chain inet allocnet-isolation strict", "sysctl -qw net.ipv4.conf.strict0.proxy_arp_pvlan=0",
	} {
		sandbox.Run(t, strings.Fields(damage)...)
		out := h.must("repair")
		if missing := h.must("repair", "--dry-run"); strings.Contains(missing, "one") || !strings.Contains(out, "one") {
			t.Errorf("%s: repaired is %s\nmissing after that: %s", damage, out, missing)
		}
		h.require(all(one, two, false), all(two, one, false), all(place{"the host", own, nil}, one, true))
	}
}

// TestRefused: what cannot keep attachments apart is not attached, with the reason.
func TestRefused(t *testing.T) {
	h := newHost(t)
	for options, words := range map[string]string{
		`"isolation": "strict", "executor": "plugins"`: "its plugins are executed",
		`"isolation": "strickt"`:                       `want "none", "network" or "strict"`,
	} {
		sandbox.WriteFile(t, h.conf+"/bad.conflist", fmt.Sprintf(`{"cniVersion": "1.0.0", "name": "bad", "allocnet": {%s}, "plugins": [
			{"type": "bridge", "bridge": "bad0", "isGateway": true, "ipam": {"type": "host-local", "subnet": "10.81.0.0/24"}}]}`, options))
		h.refuse(words, "attach", "--primary", "bad", "one")
	}
}
