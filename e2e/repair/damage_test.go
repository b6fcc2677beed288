// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package repair

import (
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/allocnet/allocnet/hook"
	"github.com/allocnet/allocnet/internal/sandbox"
)

func difference(before, after string) string {
	return gocmp.Diff(strings.Split(before, "\n"), strings.Split(after, "\n"))
}

// damage is what happens to a running allocation. PORT and PEER are the host's ends of its pairs, NS its namespace.
type damage struct {
	name, command string
	// words are among what is missing then.
	words []string
}

var damages = []damage{
	{"nothing", "true", nil},
	{"nft flush ruleset", "nft flush ruleset", []string{"CNI-FORWARD"}},
	{"iptables -F", "iptables -F; ip6tables -F", []string{"chain CNI-FORWARD of table filter of iptables", "ip6tables"}},
	{"tables deleted", "nft delete table ip cni_hostport; nft delete table inet cni_plugins_masquerade; nft delete table ip6 cni_hostport", []string{"nftables: 3 rules in chain postrouting of table inet cni_plugins_masquerade"}},
	{"rules of nftables", "nft flush chain ip cni_hostport hostports; nft flush chain inet cni_plugins_masquerade postrouting", []string{"nftables: 1 rule in chain hostports of table ip cni_hostport"}},
	{"iptables -t nat -F", "iptables -t nat -F; ip6tables -t nat -F", nil},
	{"iptables -t nat -F -X", "iptables -t nat -F; iptables -t nat -X", nil},
	{"one rule", "iptables -D CNI-FORWARD -s $ADDRESS -j ACCEPT", []string{"rule in chain CNI-FORWARD of table filter of iptables: -s"}},
	{"bridge deleted", "ip link del web0", []string{"bridge web0", "address 10.88.0.1/16 of web0", "address fd00:88::1/64 of web0", "of the bridge web0"}},
	{"bridge deleted and made empty", "ip link del web0; ip link add web0 type bridge", []string{"interface web0 is down", "address 10.88.0.1/16 of web0", "of the bridge web0"}},
	{"port removed", "ip link set $PORT nomaster", []string{"of the bridge web0"}},
	{"hairpin off", "bridge link set dev $PORT hairpin off", []string{"hairpin mode"}},
	{"bridge down", "ip link set web0 down", []string{"interface web0 is down"}},
	{"port down", "ip link set $PORT down", []string{"is down"}},
	{"gateway address removed", "ip address flush dev web0 scope global", []string{"address 10.88.0.1/16 of web0"}},
	{"forwarding off", "sysctl -qw net.ipv4.ip_forward=0 net.ipv6.conf.all.forwarding=0", []string{"net/ipv4/ip_forward is 0, was set to 1"}},
	{"route_localnet off", "sysctl -qw net.ipv4.conf.web0.route_localnet=0", []string{"route_localnet"}},
	{"default route deleted inside", "ip -n $NS route del default; ip -n $NS -6 route del default", []string{"default route via 10.88.0.1 of eth0", "default route via fd00:88::1 of eth0"}},
	{"all routes deleted inside", "ip -n $NS route flush dev eth0; ip -n $NS -6 route flush root fd00:88::/64 dev eth0; ip -n $NS -6 route del default", []string{"route to 10.88.0.0/16 of eth0"}},
	{"interfaces down inside", "for i in lo eth0 peer0 vlan0 tuned0; do ip -n $NS link set $i down; done", []string{"interface lo is down", "interface eth0 is down", "interface peer0 is down", "interface vlan0 is down"}},
	{"addresses deleted inside", "for i in eth0 peer0 vlan0; do ip -n $NS address flush dev $i scope global; done", []string{"address 10.88.", "address fd00:88::", "address 10.90.", "address 10.91."}},
	{"router advertisements accepted inside", "ip netns exec $NS sysctl -qw net.ipv6.conf.eth0.accept_ra=1", []string{"eth0 has to ignore IPv6 router advertisements"}},
	{"MAC changed inside", "ip -n $NS link set eth0 address 02:00:00:00:00:01", []string{"MAC of eth0 is 02:00:00:00:00:01"}},
	{"host's end of ptp without routes", "ip address flush dev $PEER scope global; ip route flush dev $PEER; ip -6 route flush root fd00:90::/64 dev $PEER", []string{"address 10.90.0.1/32 of"}},
	{"rules of source routing deleted", "ip -n $NS rule flush table 20000; ip -n $NS route flush table 20000", []string{"table 20000"}},
	{"settings of tuning", "ip netns exec $NS sysctl -qw net.ipv4.conf.tuned0.arp_filter=0; ip -n $NS link set tuned0 promisc off txqueuelen 1000", []string{"arp_filter is 0", "promisc", "Transmit Queue"}},
	{"MTU of the bridge", "ip link set tuned0 mtu 1280", []string{"MTU of tuned0 is 1280, the network has 1400"}}, // from now on it does not follow its ports
	{"limits", "tc qdisc del dev $TUNED root; ip link del $IFB", []string{"limit of", "interface bwp"}},
	{"redirection", "tc qdisc del dev $TUNED ingress; tc qdisc del dev $IFB root", []string{"limit of", "redirection"}},
}

// TestDamages damages a host with an allocation, of each kind, with networks that are executed in process, and each
// backend of rules.
func TestDamages(t *testing.T) {
	t.Run("iptables", func(t *testing.T) { testDamages(t, hook.ExecutorAuto, "iptables", of("iptables", damages)) })
	t.Run("nftables", func(t *testing.T) { testDamages(t, hook.ExecutorAuto, "nftables", some(of("nftables", ofRules()))) })
}

// TestDamagesOfPlugins does so with networks that plugins execute.
func TestDamagesOfPlugins(t *testing.T) {
	t.Run("nftables", func(t *testing.T) {
		testDamages(t, hook.ExecutorPlugins, "nftables", some(of("nftables", damages[:9])))
	})
	t.Run("iptables", func(t *testing.T) { testDamages(t, hook.ExecutorPlugins, "iptables", some(of("iptables", ofRules()))) })
}

// some are every fourth one with -short: another backend or executor has the others.
func some(damages []damage) []damage {
	if !testing.Short() {
		return damages
	}
	var share []damage
	for i := 1; i < len(damages); i += 4 { // the first is often no damage
		share = append(share, damages[i])
	}
	return share
}

// of returns the damages that there are with a backend of rules.
func of(backend string, damages []damage) []damage {
	other := map[string]string{"iptables": "cni_", "nftables": "-t nat"}[backend]
	return slices.DeleteFunc(slices.Clone(damages), func(d damage) bool { return strings.Contains(d.command, other) })
}

// ofRules are the damages of rules.
func ofRules() []damage {
	return slices.DeleteFunc(slices.Clone(damages), func(d damage) bool {
		return !strings.Contains(d.command, "tables") && !strings.Contains(d.command, "nft")
	})
}

// TestLongLegacyDamages does so with iptables-legacy, for the damages of rules.
func TestLongLegacyDamages(t *testing.T) {
	useLegacy(t)
	testDamages(t, hook.ExecutorAuto, "iptables", some(legacyDamages()))
}

// ofNFTables are the damages of rules that the program nft makes.
func ofNFTables() []damage {
	return slices.DeleteFunc(ofRules(), func(d damage) bool { return !strings.HasPrefix(d.command, "nft ") })
}

// useLegacy makes iptables that of iptables-legacy.
func useLegacy(t *testing.T) {
	t.Helper()
	t.Setenv("PATH", sandbox.PathOfIPTables(t, "legacy"))
	t.Cleanup(func() { sandbox.FlushLegacy(t) })
}

// legacyDamages are those of the rules of iptables-legacy.
func legacyDamages() []damage {
	return slices.DeleteFunc(ofRules(), func(d damage) bool { return strings.Contains(d.command, "nft ") })
}

func testDamages(t *testing.T, executor, backend string, damages []damage) {
	h := newHost(t, executor, backend)
	a := h.attach("one", 8080, further...)
	t.Cleanup(func() {
		h.detach("one")
		shell(t, "ip link set tuned0 mtu 1500")
	})
	variables := h.variables(a)
	published := h.connect("to the published port", outside, a.Netns, ":80", hostAddress+":8080")
	out := h.connect("to the outside", a.Netns, outside, ":443", peerAddress+":443")
	before := h.picture("one")
	for _, d := range damages {
		t.Run(d.name, func(t *testing.T) {
			h := &host{TB: t, engine: h.engine, dir: h.dir}
			shell(t, variables+d.command)
			h.requireRepaired(d, before)
			h.requireAlive(published)
			h.requireAlive(out)
		})
	}
}

// variables are those of commands.
func (h *host) variables(a *hook.Allocation) string {
	h.Helper()
	end := func(iface string) string {
		index := strings.TrimSpace(h.run("ip netns exec " + a.ID + " cat /sys/class/net/" + iface + "/iflink"))
		name, _, _ := strings.Cut(strings.TrimPrefix(h.run("ip -o link"), ""), "\n")
		for _, line := range strings.Split(h.run("ip -o link"), "\n") {
			if rest, ok := strings.CutPrefix(line, index+": "); ok {
				name, _, _ = strings.Cut(rest, "@")
			}
		}
		return name
	}
	ifb := strings.Fields(h.run("ip -br link show type ifb"))
	return "NS=" + a.ID + " PORT=" + end("eth0") + " PEER=" + end("peer0") + " TUNED=" + end("tuned0") + " IFB=" + ifb[0] +
		" ADDRESS=" + a.Attachments[0].Addresses[0].Addr().String() + "; "
}

// requireRepaired reports what is missing without a change, then repairs it once.
func (h *host) requireRepaired(d damage, before string) {
	h.Helper()
	damaged := h.picture("one")
	reported := missing(h.repair(hook.RepairReport))
	if diff := difference(damaged, h.picture("one")); diff != "" {
		h.Errorf("a report changed:\n%s", diff)
	}
	for _, word := range d.words {
		if !strings.Contains(reported, word) {
			h.Errorf("the report does not have %q:\n%s", word, reported)
		}
	}
	if (reported == "") != (damaged == before) {
		h.Errorf("the report has %q, and the damage is\n%s", reported, difference(before, damaged))
	}
	for _, drift := range h.repair(hook.RepairRules) {
		if !drift.Repaired || drift.Err != nil {
			h.Errorf("not repaired: %+v", drift)
		}
	}
	if tentative := h.run("ip -n one -6 -o address show scope global tentative"); tentative != "" {
		h.Errorf("the kernel looks for duplicates of addresses, which have no routes meanwhile:\n%s", tentative)
	}
	h.requireSame(before, "one")
	if again := missing(h.repair(hook.RepairRules)); again != "" {
		h.Errorf("a second repair found:\n%s", again)
	}
}
