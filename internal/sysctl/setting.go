// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package sysctl

import (
	"cmp"
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// Path returns the path in the tree of a parameter of the network, as the plugin tuning writes it. IFNAME stands for the interface, in
// whose name dots stay.
func Path(key, ifName string) (string, error) {
	key = strings.Replace(strings.ReplaceAll(key, ".", "/"), "IFNAME", ifName, 1)
	path := filepath.Join("/", key)[1:]
	if !strings.HasPrefix(path, "net/") {
		return "", fmt.Errorf("invalid net sysctl key: %q", key)
	}
	return path, nil
}

// ofAll matches parameters that set others, too.
var ofAll = regexp.MustCompile(`\b(?:all|default|ip_forward)\b`)

// InOrder returns the keys of parameters in the order in which they have to be set: those that set others first, longer names, which
// set more, before others.
func InOrder(values map[string]string) []string {
	keys := slices.Sorted(maps.Keys(values))
	slices.SortStableFunc(keys, func(a, b string) int {
		return cmp.Compare(len(ofAll.FindString(b)), len(ofAll.FindString(a)))
	})
	return keys
}

// spread are the parameters of all interfaces with which the kernel sets those of each, and of new ones: addrconf.c and devinet.c of Linux.
var spread = map[string]bool{
	"net/ipv4/conf/all/forwarding":                  true,
	"net/ipv6/conf/all/forwarding":                  true,
	"net/ipv6/conf/all/disable_ipv6":                true,
	"net/ipv6/conf/all/addr_gen_mode":               true,
	"net/ipv6/conf/all/ignore_routes_with_linkdown": true,
}

// Sets tells whether setting one parameter sets another, as each does itself. Both are paths.
func Sets(path, other string) bool {
	path, other = oneName(path), oneName(other)
	if path == other {
		return true
	}
	parts := strings.Split(other, "/")
	if len(parts) != 5 { // net, the family, conf, an interface, and the name
		return false
	}
	parts[3] = "all"
	return spread[path] && path == strings.Join(parts, "/")
}

// oneName returns the path of a parameter that has two.
func oneName(path string) string {
	if path == "net/ipv4/ip_forward" {
		return "net/ipv4/conf/all/forwarding"
	}
	return path
}
