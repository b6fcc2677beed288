// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Package resolvconf has resolver configurations: how those of several networks become
// one within the limits of resolv.conf(5), and the files of named network namespaces, as
// ip-netns(8) defines them.
package resolvconf

import (
	"net/netip"
	"strings"
)

// MaxServers is how many name servers a resolver uses: MAXNS of resolv.conf(5).
const MaxServers = 3

// Config is a resolver configuration. The zero value has no settings.
type Config struct {
	// Servers are the addresses of the name servers, the first to be asked first.
	Servers []string
	// Domain is searched for short names if Searches is empty.
	Domain   string
	Searches []string
	// Options are such as "ndots:1".
	Options []string
}

// Normalize returns a configuration that resolvers accept, and the values that it does
// not have: those that are no addresses or words, and servers after MaxServers. Plugins
// such as dhcp return values of servers on the network, and one with a line break would
// be another line of the file. Duplicates are removed, and Domain becomes the only
// search domain if there is none: not all runtimes read it.
func (c Config) Normalize() (normal Config, dropped []string) {
	keep := func(values []string, key func(string) string) (kept []string) {
		seen := map[string]bool{}
		for _, v := range values {
			switch k := key(v); {
			case k == "":
				dropped = append(dropped, v)
			case !seen[k]:
				seen[k] = true
				kept = append(kept, v)
			}
		}
		return kept
	}
	normal.Servers = keep(c.Servers, serverKey)
	if len(normal.Servers) > MaxServers {
		dropped = append(dropped, normal.Servers[MaxServers:]...)
		normal.Servers = normal.Servers[:MaxServers]
	}
	normal.Searches = keep(c.Searches, word)
	normal.Options = keep(c.Options, optionKey)
	if c.Domain != "" {
		normal.Domain = strings.Join(keep([]string{c.Domain}, word), "")
	}
	if len(normal.Searches) == 0 && normal.Domain != "" {
		normal.Searches = []string{normal.Domain}
	}
	return normal, dropped
}

// Merge returns the settings of c, then those of the others in order, without
// duplicates. The domain is that of the first that has one; the domains of all that have
// no search domains are searched.
func Merge(all ...Config) Config {
	var merged Config
	for _, c := range all {
		merged.Servers = append(merged.Servers, c.Servers...)
		merged.Options = append(merged.Options, c.Options...)
		merged.Searches = append(merged.Searches, c.Searches...)
		if len(c.Searches) == 0 && c.Domain != "" {
			merged.Searches = append(merged.Searches, c.Domain)
		}
		if merged.Domain == "" {
			merged.Domain = c.Domain
		}
	}
	return merged
}

// IsEmpty tells whether there are no settings.
func (c Config) IsEmpty() bool {
	return len(c.Servers)+len(c.Searches)+len(c.Options) == 0 && c.Domain == ""
}

// serverKey is empty for a value that is no address.
func serverKey(server string) string {
	address, err := netip.ParseAddr(server)
	if err != nil || word(server) == "" {
		return ""
	}
	return address.Unmap().String()
}

// optionKey is an option's name: of "ndots:1" and "ndots:2" the first is used.
func optionKey(option string) string {
	name, _, _ := strings.Cut(word(option), ":")
	return name
}

// word is empty for a value that is no single word of resolv.conf(5).
func word(value string) string {
	if strings.ContainsFunc(value, func(r rune) bool { return r <= ' ' || r == '#' || r == ';' || r >= 0x7f }) {
		return ""
	}
	return value
}
