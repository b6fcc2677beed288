// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package e2e

import (
	"fmt"
	"net"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/allocnet/allocnet/internal/sandbox"
)

// exampleConf returns a conflist of a document.
func exampleConf(t *testing.T, file, mark string) string {
	t.Helper()
	block := regexp.MustCompile("(?s)<!-- tested: " + mark + " -->\n```json\n(.*?)```").FindStringSubmatch(read(t, file))
	if block == nil {
		t.Fatalf("%s has no conflist that is marked as %q", file, mark)
	}
	return block[1]
}

// withoutRules has the test begin without rules of any program, and removes those that it leaves, so that it may flush them.
func (h *host) withoutRules() {
	h.t.Helper()
	sandbox.FlushRules(h.t)
	h.before = sandbox.Snapshot(h.t)
	h.t.Cleanup(func() { sandbox.FlushRules(h.t) })
}

// connectOutward gives the host a default route with an MTU and addresses of both families, and those that packets of the example leave with.
// Behind it is the peer, which answers connections with the client's address.
func (h *host) connectOutward() {
	h.connectPeer()
	sandbox.Run(h.t, "sh", "-ec", `
		ip link set beyond0 mtu 1400
		ip address add 2001:db8:2::1/64 dev beyond0 nodad
		ip -n beyond address add 2001:db8:2::2/64 dev eth0 nodad
		ip route add default via 192.0.2.2
		ip -6 route add default via 2001:db8:2::2
		ip address add 203.0.113.10/32 dev lo
		ip address add 203.0.113.25/32 dev lo
		ip -6 address add 2001:db8:25::1/128 dev lo nodad
		ip -n beyond route add 203.0.113.0/24 via 192.0.2.1
		ip -n beyond -6 route add 2001:db8:25::/64 via 2001:db8:2::1`)
	h.t.Cleanup(func() {
		sandbox.Run(h.t, "sh", "-ec", "ip address del 203.0.113.10/32 dev lo; ip address del 203.0.113.25/32 dev lo; ip -6 address del 2001:db8:25::1/128 dev lo")
	})
	tellAddress(h.t, beyond, "[2001:db8:2::2]:80", net.Conn.RemoteAddr)
}

// toldBy connects from a namespace and returns the answer.
func toldBy(path, to string) (answer string) {
	err := within(path, func() error {
		dialer := net.Dialer{Timeout: patience}
		conn, err := dialer.Dial("tcp", to)
		if err != nil {
			return err
		}
		defer conn.Close()
		buffer := make([]byte, 100)
		n, err := conn.Read(buffer)
		answer = string(buffer[:n])
		return err
	})
	if err != nil {
		return err.Error()
	}
	return answer
}

// TestEgressAddress: the example of docs/routing.md. Packets leave with the addresses of the job, interfaces have the MTU of the default route, and
// ports answer on both families; also after repair.
func TestEgressAddress(t *testing.T) {
	for _, backend := range []string{"iptables", "nftables"} {
		t.Run(backend, func(t *testing.T) {
			h := newHost(t)
			text := strings.NewReplacer(`"ipMasq": true`, fmt.Sprintf(`"ipMasq": true, "ipMasqBackend": %q`, backend), `"type": "portmap"`, fmt.Sprintf(`"type": "portmap", "backend": %q`, backend),
				`"type": "host-local"`, `"type": "host-local", "dataDir": "/run/outward"`).Replace(exampleConf(t, "../docs/routing.md", "outward"))
			sandbox.WriteFile(t, h.conf+"/85-outward.conflist", text)
			sandbox.Warm(t, h.conf)
			h.withoutRules()
			defer os.RemoveAll("/run/outward")
			h.connectOutward()
			a := h.attach("out", "--primary", "outward", "--publish", routerAddress+":8400:80")
			requireMTU(t, a, 1400)
			serve(t, "/run/netns/out", ":80", "out here")
			require := func(when string) {
				t.Helper()
				for to, want := range map[string]string{"192.0.2.2:80": "203.0.113.10", "[2001:db8:2::2]:80": "2001:db8:2::1"} {
					if got := toldBy("/run/netns/out", to); got != want {
						t.Errorf("%s, to %s: seen as %s, want %s", when, to, got, want)
					}
				}
				requireAnswer(t, "http://192.0.2.1:8400", "out here")
				requireAnswer(t, "http://[2001:db8:2::1]:8400", "out here")
			}
			require("attached")
			h.must("check", "out")
			if backend == "iptables" {
				sandbox.Run(t, "sh", "-ec", "iptables -t nat -F; ip6tables -t nat -F")
			} else {
				sandbox.Run(t, "nft", "flush ruleset")
			}
			h.must("repair", "out")
			require("repaired")
			h.attach("mail", "--primary", "outward", "--job", "mail-1")
			for to, want := range map[string]string{"192.0.2.2:80": "203.0.113.25", "[2001:db8:2::2]:80": "2001:db8:25::1"} {
				if got := toldBy("/run/netns/mail", to); got != want {
					t.Errorf("a job with a rule, to %s: seen as %s, want %s", to, got, want)
				}
			}
			h.must("detach", "mail")
			h.must("detach", "out")
		})
	}
}
