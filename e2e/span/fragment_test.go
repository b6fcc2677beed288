// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package span

import (
	"bufio"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"testing"
)

// TestFullSize: writes of 64 KiB pass between nodes without a fragment. They also pass a router whose
// link has a smaller MTU than the nodes know of, in fragments.
func TestFullSize(t *testing.T) {
	s := take(t)
	s.runJob()
	c1, c2, c3 := s.on(0), s.on(1), s.on(2)
	exchange := func() (made counted) {
		before := s.fragments()
		for _, from := range []peer{c1, c3} { // both ends of a connection write
			must(t, from.reach([]peer{c1, c2, c3}))
		}
		after := s.fragments()
		return counted{after.created - before.created, after.required - before.required}
	}
	if made := exchange(); made != (counted{}) {
		t.Errorf("%d fragments were made, and %d came in, want none", made.created, made.required)
	}
	s.router("ip link set mgmt-beyond mtu 1400")
	t.Cleanup(func() { s.router("ip link set mgmt-beyond mtu 1500") })
	if made := exchange(); made.created == 0 || made.required == 0 {
		t.Errorf("%d fragments are counted as made, and %d as come in, want those of the router", made.created, made.required)
	}
}

// counted is what the kernels of all hosts, the router and allocations have done.
type counted struct{ created, required int }

// fragments are those of all namespaces that packets between the peers pass.
func (s *scene) fragments() (sum counted) {
	s.Helper()
	const files = "/proc/net/snmp /proc/net/snmp6"
	read := func(cmd *exec.Cmd) {
		out, err := cmd.CombinedOutput()
		if err != nil {
			s.Fatalf("%v: %v: %s", cmd, err, out)
		}
		sum.add(s, string(out))
	}
	words := append([]string{"cat"}, strings.Fields(files)...)
	read(exec.Command(words[0], words[1:]...)) // the router
	for _, m := range lab.Clients {
		read(m.Command(words...))
		read(on(s.peers, m).command(words...))
	}
	return sum
}

// add adds what a kernel says: of IPv4 a line with names and one with values, of IPv6 a line for
// each.
func (c *counted) add(t testing.TB, text string) {
	t.Helper()
	values, names := map[string]int{}, []string(nil)
	for lines := bufio.NewScanner(strings.NewReader(text)); lines.Scan(); {
		words := strings.Fields(lines.Text())
		switch {
		case words[0] == "Ip:" && names == nil:
			names = words
		case words[0] == "Ip:":
			for i := range names[1:] {
				values[names[i+1]], _ = strconv.Atoi(words[i+1]) // all are numbers
			}
		case len(words) == 2:
			values[words[0]], _ = strconv.Atoi(words[1])
		}
	}
	for _, name := range []string{"FragCreates", "Ip6FragCreates", "ReasmReqds", "Ip6ReasmReqds"} {
		if _, ok := values[name]; !ok {
			t.Fatal(fmt.Errorf("no %s in %s", name, text))
		}
	}
	c.created += values["FragCreates"] + values["Ip6FragCreates"]
	c.required += values["ReasmReqds"] + values["Ip6ReasmReqds"]
}
