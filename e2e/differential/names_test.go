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
