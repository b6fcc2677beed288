// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/allocnet/allocnet/cluster/forwarding"
	"github.com/allocnet/allocnet/cniconf"
	"github.com/allocnet/allocnet/internal/netfilter"
)

// settings reports kernel settings that keep allocations from being reached.
// dir is /proc/sys.
func settings(r *Report, networks []network, dir string) {
	read := func(name string) string {
		data, err := os.ReadFile(filepath.Join(dir, name))
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return "absent"
		case err != nil:
			r.addUnexamined(strings.ReplaceAll(name, "/", "."), "is not examined: "+err.Error(), "run allocnet doctor again")
		}
		return strings.TrimSpace(string(data))
	}
	routed := slices.ContainsFunc(networks, func(n network) bool { return n.routed })
	if routed && read("net/ipv4/ip_forward") == "0" {
		r.addWarning("net.ipv4.ip_forward", "is 0: allocations reach nothing outside their bridge until a plugin enables forwarding",
			"sysctl -w net.ipv4.ip_forward=1")
	}
	v6 := slices.ContainsFunc(networks, func(n network) bool {
		return n.routed && slices.ContainsFunc(n.ranges(), func(a cniconf.AddressRange) bool { return a.Subnet.Addr().Is6() })
	})
	isOff := v6 && (read("net/ipv6/conf/all/disable_ipv6") == "1" || read("net/ipv6/conf/default/disable_ipv6") == "1")
	if isOff {
		r.addError("net.ipv6.conf.default.disable_ipv6", "IPv6 is switched off on this host: networks with IPv6 addresses cannot be attached",
			"sysctl -w net.ipv6.conf.all.disable_ipv6=0 net.ipv6.conf.default.disable_ipv6=0, or remove the IPv6 ranges of the networks")
	}
	if v6 && !isOff && read("net/ipv6/conf/all/forwarding") == "0" {
		r.addWarning("net.ipv6.conf.all.forwarding", "is 0: allocations with IPv6 reach nothing outside their bridge", forwarding.ForwardIPv6)
	}
	bridgeFilter(r, networks, read)
	if len(networks) > 1 && read("net/ipv4/conf/all/rp_filter") == "1" {
		r.addWarning("net.ipv4.conf.all.rp_filter", "is 1 (strict): with several networks, replies on another interface than the request are dropped",
			"sysctl -w net.ipv4.conf.all.rp_filter=2")
	}
}

func bridgeFilter(r *Report, networks []network, read func(string) string) {
	if read("net/bridge/bridge-nf-call-iptables") == "1" {
		ownPorts(r, networks)
	}
	if slices.ContainsFunc(networks, func(n network) bool { return n.unmasqueraded }) {
		unfiltered(r, "allocations on one bridge do not reach each other by published ports", read)
	}
	if slices.ContainsFunc(networks, func(n network) bool { return n.isolated && !n.apart }) {
		unfiltered(r, "allocations on one bridge reach each other although their network has ingressPolicy isolated", read)
	}
}

// unfiltered reports that iptables does not see what a bridge forwards, and what follows.
func unfiltered(r *Report, so string, read func(string) string) {
	for _, name := range []string{"iptables", "ip6tables"} {
		switch read("net/bridge/bridge-nf-call-" + name) {
		case "absent":
			r.addWarning("br_netfilter", "is not loaded: "+so, "modprobe br_netfilter")
			return
		case "0":
			r.addWarning("net.bridge.bridge-nf-call-"+name, "is 0: "+so, "sysctl -w net.bridge.bridge-nf-call-"+name+"=1")
		}
	}
}

// ownPorts reports networks whose allocations do not reach their own published ports: with br_netfilter the bridge would have to
// return the packet to the port that it came from.
func ownPorts(r *Report, networks []network) {
	for _, n := range networks {
		if len(n.bridges) > 0 && !n.hairpin && slices.Contains(n.PluginTypes(), "portmap") {
			r.addWarning(n.Path, fmt.Sprintf("network %q: with br_netfilter an allocation does not reach its own published ports", n.Name),
				"set \"hairpinMode\": true of the plugin bridge in "+n.Path)
		}
	}
}

// backends reports rules in both iptables backends: the kernel applies both, and
// an operator who lists one misses the other. It reports tables that iptables does not list, too.
func backends(ctx context.Context, r *Report, hasNFTables func(context.Context) bool) {
	counts := map[string]bool{}
	for _, program := range []string{"iptables-nft", "iptables-legacy", "ip6tables-nft"} {
		out, err := exec.CommandContext(ctx, program+"-save").Output()
		counts[program] = err == nil && strings.Contains(string(out), "\n-A ")
		if err != nil && !errors.Is(err, exec.ErrNotFound) {
			r.addUnexamined("iptables", "the rules of "+program+" are not examined: "+program+"-save: "+err.Error(), "run allocnet doctor again")
		}
		for _, table := range netfilter.Unlisted(string(out)) {
			r.addWarning(program, fmt.Sprintf("cannot list the table %s, into which another program has put rules of nft: plugins that are executed cannot attach networks", table),
				"nft list ruleset shows these rules: move them to a table of another name, or have the networks executed in process (allocnet networks)")
		}
	}
	if counts["iptables-nft"] && counts["iptables-legacy"] {
		r.addError("iptables", "nftables and the legacy tables both have rules: the kernel applies both",
			"move them to one backend: iptables-legacy-save | iptables-nft-restore --noflush, then flush the legacy tables")
	}
	if _, err := exec.LookPath("iptables"); err != nil && !hasNFTables(ctx) {
		r.addWarning("iptables", "is not installed: without nftables, portmap, firewall and ipMasq need it", "apt-get install iptables")
	}
}
