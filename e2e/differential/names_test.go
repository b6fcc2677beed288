// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package differential

import (
	"cmp"
	"fmt"
	"net"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// names replaces what is random in one run: names of links and MACs.
type names struct {
	// configured are in lower case the texts in which a MAC is none that the kernel chose.
	configured string
	links      map[string]string
	macs       map[string]string
	count      map[string]int
}

func newNames() *names {
	return &names{links: map[string]string{}, macs: map[string]string{}, count: map[string]int{}}
}

var (
	randomName = regexp.MustCompile(`\bveth[0-9a-f]{8}\b`)
	macText    = regexp.MustCompile(`\b[0-9a-f]{2}(:[0-9a-f]{2}){5}\b`)
)

// add learns the names of links, in the order in which they were made, and their MACs. That of a
// bridge comes last, because it may be that of a port.
func (n *names) add(dumps ...*dump) {
	var all []*link
	for _, d := range dumps {
		if d != nil {
			all = append(all, d.links...)
			n.addPorts(d)
		}
	}
	slices.SortStableFunc(all, func(a, b *link) int {
		if a.kind == "bridge" == (b.kind == "bridge") {
			return 0
		} else if b.kind == "bridge" {
			return -1
		}
		return 1
	})
	for _, l := range all {
		if randomName.MatchString(l.name) && n.links[l.name] == "" {
			n.links[l.name] = fmt.Sprintf("veth#%d", len(n.links))
		}
		mac := l.mac.String()
		if n.macs[mac] != "" || !n.isRandom(mac) {
			continue
		}
		name := n.replace(l.name)
		n.count[name]++
		n.macs[mac] = fmt.Sprintf("mac(%s,%d)", name, n.count[name])
	}
}

// addPorts gives the random MACs of a bridge and its ports one name: the plugins leave the bridge the lowest one
// of its ports, and allocnet gives it one (docs/differences.md).
func (n *names) addPorts(d *dump) {
	for _, bridge := range d.links {
		for _, l := range d.links {
			mac, at := l.mac.String(), l == bridge || l.master == bridge.index
			if bridge.kind == "bridge" && at && n.isRandom(mac) {
				n.macs[mac] = fmt.Sprintf("mac(at %s)", bridge.name)
			}
		}
	}
}

// isRandom tells whether the kernel chose a MAC: it sets the second bit, and never the first.
func (n *names) isRandom(mac string) bool {
	parsed, err := net.ParseMAC(mac)
	return err == nil && parsed[0]&3 == 2 && !strings.Contains(n.configured, mac)
}

// replace is called for thousands of lines, of which few have names or MACs.
func (n *names) replace(text string) string {
	if strings.Contains(text, "veth") {
		text = n.replaceLinks(text)
	}
	if strings.Count(text, ":") >= 5 {
		text = n.replaceMACs(text)
	}
	return text
}

func (n *names) replaceLinks(text string) string {
	return randomName.ReplaceAllStringFunc(text, func(name string) string {
		if known := n.links[name]; known != "" {
			return known
		}
		return "veth#unknown"
	})
}

func (n *names) replaceMACs(text string) string {
	return macText.ReplaceAllStringFunc(text, func(mac string) string {
		if n.macs[mac] == "" && n.isRandom(mac) { // that of a link before
			n.count[""]++
			n.macs[mac] = fmt.Sprintf("mac(earlier,%d)", n.count[""])
		}
		return cmp.Or(n.macs[mac], mac)
	})
}

// TestBridgeOfSeveralPorts: which of several random MACs a bridge has is not compared. Which is configured is.
func TestBridgeOfSeveralPorts(t *testing.T) {
	const low, high, configured = "06:00:00:00:00:01", "06:00:00:00:00:02", "02:00:00:00:00:01"
	look := func(bridge, first, second string) string {
		n := newNames()
		n.configured = configured
		var links []*link
		for i, mac := range []string{bridge, first, second} {
			parsed, err := net.ParseMAC(mac)
			if err != nil {
				t.Fatal(err)
			}
			links = append(links, &link{index: i, name: fmt.Sprintf("link%d", i), master: min(i, 1) * 9, mac: parsed})
		}
		links[0].index, links[0].kind = 9, "bridge"
		n.add(&dump{links: links})
		return n.replace(strings.Join([]string{bridge, first, second}, " "))
	}
	if one, other := look(low, low, high), look(low, high, low); one != other {
		t.Errorf("%q, and in the other order %q", one, other)
	}
	for _, different := range []string{look(configured, configured, high), look(high, configured, high)} {
		if different == look(low, low, high) {
			t.Errorf("%q is no difference", different)
		}
	}
}
