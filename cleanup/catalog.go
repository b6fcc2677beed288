// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package cleanup

import (
	"cmp"
	"encoding/json"
	"path/filepath"
	"regexp"
	"slices"

	"github.com/allocnet/allocnet/internal/netfilter"
)

// Kinds of objects, after the plugins that make them.
const (
	// Masquerade is a chain or rule that bridge and ptp make for ipMasq.
	Masquerade Kind = "masquerade"
	// SpoofCheck is a chain or rule that bridge makes for macspoofchk.
	SpoofCheck Kind = "macspoofchk"
	// Ports is a chain or rule of portmap.
	Ports Kind = "ports"
	// Firewall is a rule of the firewall plugin. It names an address only.
	Firewall Kind = "firewall"
	// Lease is an address of host-local or allocnet-ipam.
	Lease Kind = "lease"
	// Link is a network device: the host's end of a veth pair, bandwidth's
	// ifb device, or an interface that DEL left in its namespace.
	Link Kind = "link"
	// Tuning is a file in which the tuning plugin saved settings.
	Tuning Kind = "tuning"
	// ResolvConf is the file of a network namespace that allocnet made.
	ResolvConf Kind = "resolv.conf"
	// Cache is a result in libcni's cache.
	Cache Kind = "cache"
)

// catalogue has the plugins whose leaks are known, as the reference plugins
// v1.9.1 make them. A plugin that is added needs an element here, a test of what
// it writes in catalog_test.go, and a row in docs/cleanup.md.
var catalogue = catalog{
	{name: "bridge", delMayLie: true, leaves: []*leak{masquerade, spoofCheck}},
	{name: "ptp", delMayLie: true, leaves: []*leak{masquerade}},
	{name: "portmap", leaves: []*leak{{
		kind:   Ports,
		chains: []chainPattern{{table: "nat", name: hashedName{"CNI-DN-", 21}, comment: chainComment}},
		tables: []nftTable{
			{family: netfilter.IPv4, name: "cni_hostport", chains: hostportChains, comment: containerIDComment},
			{family: netfilter.IPv6, name: "cni_hostport", chains: hostportChains, comment: containerIDComment},
		},
	}}},
	{name: "firewall", zone: firewalldZone, leaves: []*leak{{
		kind: Firewall,
		rules: []rulePattern{{table: "filter", chain: "CNI-FORWARD", forms: []string{
			"-s ADDRESS -j ACCEPT",
			"-d ADDRESS -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT",
		}}},
	}}},
	{name: "host-local", leaves: []*leak{lease}},
	{name: "allocnet-ipam", leaves: []*leak{lease}},
	{name: "bandwidth", leaves: []*leak{{
		kind:  Link,
		links: []linkPattern{{linkType: "ifb", name: hashedName{"bwp", 12}}},
	}}},
	{name: "tuning", delMayLie: true, leaves: []*leak{{
		kind: Tuning,
		files: []filePattern{{
			in:   directory{paths: []string{tuningDir}, configured: tuningDataDir, numbered: true},
			name: regexp.MustCompile(`^(?P<id>.+)_(?P<interface>[^_]*)\.json$`),
			want: "CONTAINERID_INTERFACE.json",
			key:  tuningFile,
		}},
	}}},
	{name: "host-device", movesLink: true},
	{name: "macvlan"}, {name: "ipvlan"}, {name: "vlan"}, {name: "dummy"}, {name: "tap"}, {name: "loopback"},
	{name: "sbr"}, {name: "vrf"}, {name: "static"},
}

// masquerade is what bridge and ptp leave of ipMasq.
var masquerade = &leak{
	kind:   Masquerade,
	chains: []chainPattern{{table: "nat", name: hashedName{"CNI-", 24}, comment: chainComment}},
	tables: []nftTable{{
		family: netfilter.INet, name: "cni_plugins_masquerade", chains: []string{"masq_checks"},
		comment: regexp.MustCompile(`^(?P<key>[0-9a-f]{16}-[0-9a-f]{16})(?:, net: (?P<network>` + name + `), if: (?P<interface>[^\s/]+), id: (?P<id>` + name + `)$)?`),
		key:     instance,
	}},
}

// spoofCheck is what bridge leaves of macspoofchk.
var spoofCheck = &leak{
	kind: SpoofCheck,
	tables: []nftTable{{
		family: netfilter.Bridge, name: "nat", chains: []string{"PREROUTING"},
		own: ownChains{"cni-br-iface-", []func(Owner) string{
			func(o Owner) string { return "cni-br-iface-" + instanceID(o) },
			func(o Owner) string { return "cni-br-iface-" + instanceID(o) + "-mac" },
		}},
		comment: regexp.MustCompile(`^(?P<key>macspoofchk-.+)$`),
		key:     func(o Owner) string { return "macspoofchk-" + instanceID(o) },
	}},
}

func instanceID(o Owner) string { return o.ContainerID + "-" + o.Interface }

// lease is what host-local leaves, and allocnet-ipam, which keeps its leases in the same form.
var lease = &leak{
	kind: Lease,
	// The default of both plugins, then that of Nomad's bridge.
	leases: []directory{{paths: []string{"/var/lib/cni/networks", "/run/cni"}, configured: ipamDataDir}},
}

var hostportChains = []string{"hostports", "hostip_hostports", "masquerading"}

// name is the form of network names and container IDs.
const name = `[a-zA-Z0-9][\w.-]*`

var (
	// chainComment is on the rules in iptables that lead to a plugin's chain.
	chainComment       = regexp.MustCompile(`^(?:dnat )?name: "(?P<network>` + name + `)" id: "(?P<id>` + name + `)"$`)
	containerIDComment = regexp.MustCompile(`^(?P<id>` + name + `)$`)
)

// instance begins the comment of a masquerade rule in nftables.
func instance(o Owner) string {
	return hash(o.Network, 16) + "-" + hash(o.Interface+":"+o.ContainerID, 16)
}

const tuningDir = "/run/cni/tuning"

func tuningFile(o Owner) string { return o.ContainerID + "_" + o.Interface + ".json" }

// savedSettings returns the files in which the plugins tuning of a conflist keep what they have found, that of the last plugin first.
func savedSettings(conflist json.RawMessage, o Owner) (files []string) {
	for _, conf := range slices.Backward(pluginConfs(conflist)) {
		if conf.Type == "tuning" {
			files = append(files, filepath.Join(cmp.Or(conf.DataDir, tuningDir), tuningFile(o)))
		}
	}
	return files
}

func ipamDataDir(c pluginConf) string { return c.IPAM.DataDir }

func tuningDataDir(c pluginConf) string {
	if c.Type != "tuning" {
		return ""
	}
	return c.DataDir
}

// firewalldZone is that whose sources the addresses may be. Without a backend the plugin uses firewalld where it runs.
func firewalldZone(c pluginConf) string {
	if c.Backend != "firewalld" && c.Backend != "" {
		return ""
	}
	return cmp.Or(c.FirewalldZone, "trusted")
}
