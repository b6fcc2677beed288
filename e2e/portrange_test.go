// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package e2e

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/allocnet/allocnet/internal/sandbox"
)

// natBy writes the network of nat, whose ports a backend maps, and has the test begin with the rules of that.
func (h *host) natBy(backend string) {
	h.t.Helper()
	h.nat("")
	path := h.conf + "/15-nat.conflist"
	sandbox.WriteFile(h.t, path, strings.Replace(read(h.t, path), `"type": "portmap"`, fmt.Sprintf(`"type": "portmap", "backend": %q`, backend), 1))
	sandbox.Warm(h.t, h.conf)
	h.before = sandbox.Snapshot(h.t)
}

// TestRangeOfHostPorts: a range is published as a whole, by few rules in process and by one for each port with plugins, is in use as a
// whole, and leaves nothing behind, also if nothing but forced cleanup removes it.
func TestRangeOfHostPorts(t *testing.T) {
	for _, backend := range []string{"iptables", "nftables"} {
		for _, executor := range []string{"auto", "plugins"} {
			t.Run(backend+" "+executor, func(t *testing.T) {
				t.Setenv("ALLOCNET_EXECUTOR", executor)
				h := newHost(t)
				h.natBy(backend)
				choose := func(ports string) string {
					return fmt.Sprintf(`[{"name": "nat", "portMappings": [{"hostPort": %s}]}]`, ports)
				}
				a := h.attach("ranged", "--networks", choose(`"4700-4719"`))
				if got := len(a.Attachments[0].Ports); (got == 1) != (executor == "auto") {
					t.Errorf("%d ports on record: %v", got, a.Attachments[0].Ports)
				}
				for _, port := range []string{"4700", "4719"} {
					serve(t, "/run/netns/ranged", ":"+port, port+" here")
					requireAnswer(t, "http://127.0.0.1:"+port, port+" here")
					requireAnswer(t, "http://10.88.0.1:"+port, port+" here")
				}
				h.refuse(2, []string{"4710/tcp", "allocation ranged"}, "attach", "other", "--primary=", "--networks", choose("4710"))
				h.refuse(2, []string{"allocation ranged"}, "attach", "other", "--primary=", "--networks", choose(`"4719-4720"`))
				h.must("check", "ranged")
				requireRepaired(t, h, backend)
				if rules := len(strings.Split(sandbox.Run(t, "nft", "list", "ruleset"), "47")); executor == "auto" && rules > 20 {
					t.Errorf("%d rules have a port of the range", rules)
				}
				h.must("detach", "ranged")
				requirePublishedRange(t, h, executor)
			})
		}
	}
}

// requirePublishedRange: a range of an operator is as one of a job.
func requirePublishedRange(t *testing.T, h *host, executor string) {
	t.Helper()
	a := h.attach("published", "--primary", "nat", "--publish", "4700-4719")
	if got := len(a.Attachments[0].Ports); (got == 1) != (executor == "auto") {
		t.Errorf("%d ports of --publish on record: %v", got, a.Attachments[0].Ports)
	}
	serve(t, "/run/netns/published", ":4719", "4719 there")
	requireAnswer(t, "http://10.88.0.1:4719", "4719 there")
	h.refuse(2, []string{"allocation published"}, "attach", "other", "--primary", "nat", "--publish", "4719-4725")
	h.must("check", "published")
	h.must("detach", "published")
}

// requireRepaired has rules of ports made again after all are gone.
func requireRepaired(t *testing.T, h *host, backend string) {
	t.Helper()
	if backend == "nftables" {
		sandbox.Run(t, "nft", "flush chain ip cni_hostport hostports")
	} else {
		sandbox.Run(t, "iptables", "-t", "nat", "-F", "CNI-HOSTPORT-DNAT")
	}
	h.must("repair", "ranged")
	requireAnswer(t, "http://10.88.0.1:4700", "4700 here")
}

// TestRangeIsForgotten: forced cleanup finds the rules of a range without a record.
func TestRangeIsForgotten(t *testing.T) {
	for _, backend := range []string{"iptables", "nftables"} {
		t.Run(backend, func(t *testing.T) {
			h := newHost(t)
			h.natBy(backend)
			h.attach("lost", "--networks", `[{"name": "nat", "portMappings": [{"hostPort": "4700-4719", "protocol": "udp"}]}]`)
			h.loseRecords("lost")
			h.loseCache("lost")
			sandbox.Run(t, "ip", "netns", "delete", "lost")
			_ = os.RemoveAll("/etc/netns/lost")
			h.must("gc")
		})
	}
}
