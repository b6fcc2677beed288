// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package e2e

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/allocnet/allocnet/internal/inprocess"
	"github.com/allocnet/allocnet/internal/strictjson"
)

// compared are the networks. All keys of the plugins are in one, or in unlike.
var compared = []option{
	{plugin: "portmap"},
	{plugin: "portmap", keys: keys{"snat": both(`false`)}},
	{plugin: "portmap", keys: keys{"masqAll": both(`true`)}},
	{plugin: "portmap", keys: keys{"markMasqBit": both(`14`)}},
	{plugin: "portmap", keys: keys{"externalSetMarkChain": {`"OPS-MARK"`, refused}}},
	{plugin: "portmap", keys: keys{
		"conditionsV4": {`["-s", "` + peerAddress + `"]`, refused}, // nft's would be of all networks here
		"conditionsV6": {`["!", "-s", "` + peerAddress6 + `"]`, refused},
	}},
	{plugin: "bridge", keys: keys{"ipMasq": both(`true`), "hairpinMode": both(`false`), "mtu": both(`1400`), "forceAddress": both(`true`), "enabledad": both(`true`)}},
	{plugin: "bridge", keys: keys{"ipMasq": both(`true`), "portIsolation": both(`true`)}},
	{plugin: "bridge", keys: keys{"hairpinMode": both(`false`), "promiscMode": both(`true`)}},
	{plugin: "ptp"},
	{plugin: "ptp", keys: keys{"ipMasq": both(`true`), "mtu": both(`1400`)}},
}

// unlike are the keys that are not compared, with the reason.
var unlike = map[string]map[string]string{
	"portmap": {"backend": "its values are compared", "publishAddress": "only the engine sets it: TestPublishAddress of e2e/ipam"},
	"bridge": {
		"bridge": "each has one", "isDefaultGateway": "each has it", "isGateway": "as above", "ipMasqBackend": "its values are compared", "egressAddress": "only the engine sets it: TestEgressAddress",
		"vlan": "not every kernel has it", "preserveDefaultVlan": "as above", "vlanTrunk": "the allocation would have to tag its packets", "disableContainerInterface": "there are no packets",
	},
	"ptp": {"ipMasqBackend": "its values are compared", "egressAddress": "as above"},
	"firewall": {
		"backend": "firewalld needs a system bus: TestExampleWithFirewalld", "ingressPolicy": "it is of iptables with both backends: TestFirewallByPackets",
		"iptablesAdminChainName": "the name says of which backend it is", "firewalldZone": "as above",
	},
}

// common are the keys of each plugin, and those of its request.
var common = []string{"cniVersion", "cniVersions", "name", "type", "capabilities", "ipam", "dns", "prevResult", "cni.dev/valid-attachments", "args", "runtimeConfig"}

// keys have the value of a plugin's keys with each backend.
type keys map[string]value

type value struct{ iptables, nftables string }

func both(text string) value { return value{text, text} }

// refused is the value of a key that a backend has to refuse.
const refused = ""

func (v value) on(backend string) string {
	if backend == "iptables" {
		return v.iptables
	}
	return v.nftables
}

// option is a network with keys that one of its plugins has.
type option struct {
	plugin string
	keys   keys
}

func (o option) String() string { return fmt.Sprint(o.plugin, slices.Sorted(maps.Keys(o.keys))) }

// TestLongBackendsByPackets: each option of a plugin whose rules iptables and nftables can make has the same effect with both
// backends, also if the plugin is executed. Clients reach the same published ports, and the task and its peer see the same clients, but for
// what withNFTables says. TestEveryKeyIsCompared holds it to all keys that the plugins have.
func TestLongBackendsByPackets(t *testing.T) {
	var machines []*machine
	var ready sync.WaitGroup
	for _, backend := range []string{"iptables", "nftables"} {
		for _, executor := range []string{"plugins", "auto"} {
			m := newMachine(t, backend, executor)
			machines = append(machines, m)
			ready.Go(func() { m.err = m.attach() })
		}
	}
	ready.Wait()
	for _, m := range machines {
		if m.err != nil {
			t.Fatalf("%s: %v", m.name, m.err)
		}
		m.serve()
	}
	compareMachines(t, machines, everyProbe())
}

// TestEveryKeyIsCompared: TestLongBackendsByPackets compares each key of the plugins with backends, or it is listed as unlike.
func TestEveryKeyIsCompared(t *testing.T) {
	for _, plugin := range slices.Sorted(maps.Keys(unlike)) {
		for _, key := range keysOf(t, plugin) {
			found := slices.ContainsFunc(compared, func(o option) bool { return o.plugin == plugin && o.keys[key] != value{} })
			if _, excepted := unlike[plugin][key]; found == (excepted || slices.Contains(common, key)) {
				t.Errorf("key %s of %s: want it in compared, or in unlike with a reason", key, plugin)
			}
		}
	}
}

// keysOf returns the keys of a plugin.
func keysOf(t *testing.T, plugin string) []string {
	t.Helper()
	mistakes, err := inprocess.Mistakes(plugin, "", strictjson.Text{Data: []byte(`{"no such key": 1}`)})
	if err != nil || len(mistakes) != 1 {
		t.Fatalf("keys of %s: %v, %v", plugin, mistakes, err)
	}
	return mistakes[0].Known
}

// conflist is the network of an option.
func (o option) conflist(number int, backend, dataDir string) string {
	ipam := fmt.Sprintf(`{"type": "host-local", "dataDir": %q, "ranges": [[{"subnet": "10.97.%d.0/24"}], [{"subnet": "fd00:97:%[2]x::/64"}]]`, dataDir, number)
	first := map[string]string{"type": `"bridge"`, "bridge": fmt.Sprintf(`"web%d"`, number), "isDefaultGateway": `true`, "hairpinMode": `true`, "ipam": ipam + `}`}
	if o.plugin == "ptp" {
		first = map[string]string{"type": `"ptp"`, "ipam": ipam + `, "routes": [{"dst": "0.0.0.0/0"}, {"dst": "::/0"}]}`}
	}
	first["ipMasqBackend"] = fmt.Sprintf("%q", backend)
	second := map[string]string{"type": `"portmap"`, "backend": fmt.Sprintf("%q", backend), "capabilities": `{"portMappings": true}`}
	having := first
	if o.plugin == "portmap" {
		having = second
	}
	for key, value := range o.keys {
		having[key] = cmp.Or(value.on(backend), value.iptables)
	}
	return fmt.Sprintf(`{"cniVersion": "1.0.0", "name": "web%d", "plugins": [%s, %s]}`, number, object(first), object(second))
}

func object(members map[string]string) string {
	var all []string
	for key, value := range members {
		all = append(all, fmt.Sprintf("%q: %s", key, value))
	}
	return "{" + strings.Join(all, ", ") + "}"
}

// refusedBy is the key that a backend has to refuse; empty if there is none.
func (o option) refusedBy(backend string) string {
	for key, value := range o.keys {
		if value.on(backend) == refused {
			return key
		}
	}
	return ""
}

// hostIPs are those of the ports that each option publishes with each protocol. Only portmap's differ by it.
func (o option) hostIPs() []string {
	if o.plugin == "portmap" {
		return []string{"", routerAddress, routerAddress6, "127.0.0.1"}
	}
	return []string{""}
}

// port is that on the host of a network, which is published on the n-th of hostIPs.
func port(network, n int) int { return 8600 + 10*network + n }

func (o option) mappings(number int) string {
	var all []string
	for n, hostIP := range o.hostIPs() {
		for _, protocol := range []string{"tcp", "udp"} {
			all = append(all, fmt.Sprintf(`{"hostPort": %d, "containerPort": 80, "protocol": %q, "hostIP": %q}`, port(number, n), protocol, hostIP))
		}
	}
	return "[" + strings.Join(all, ", ") + "]"
}

// probe asks from a namespace of a machine as whom it is seen.
type probe struct {
	// network is the index of the option.
	network int
	// client is who asks, and namespace what follows the machine's name in that of its namespace.
	client, namespace string
	protocol, to      string
}

func (p probe) String() string {
	return fmt.Sprintf("%s: %s to %s %s", compared[p.network], p.client, p.protocol, p.to)
}

// everyProbe returns what the task, the other allocation and the hosts ask.
func everyProbe() []probe {
	var all []probe
	for number, o := range compared {
		task, other := fmt.Sprintf("-task%d", number), fmt.Sprintf("-other%d", number)
		for _, to := range []string{peerAddress + ":80", "[" + peerAddress6 + "]:80"} {
			all = append(all, probe{number, "the task", task, "tcp", to})
		}
		for n := range o.hostIPs() {
			for _, protocol := range []string{"tcp", "udp"} {
				for _, host := range []string{routerAddress, "[" + routerAddress6 + "]"} {
					to := fmt.Sprintf("%s:%d", host, port(number, n))
					for client, namespace := range map[string]string{"the host": "", "the peer": "-peer", "the task": task, "another allocation": other} {
						all = append(all, probe{number, client, namespace, protocol, to})
					}
				}
				all = append(all, probe{number, "the host", "", protocol, fmt.Sprintf("127.0.0.1:%d", port(number, n))})
			}
		}
	}
	return all
}

// compareMachines compares the answers of all machines with those of the first one. What differs is asked again with
// patience: maybe the machine was busy.
func compareMachines(t *testing.T, machines []*machine, probes []probe) {
	t.Helper()
	for _, limit := range []time.Duration{time.Second, patience} {
		var last []string
		differ := map[probe]bool{}
		reference := machines[0].ask(probes, limit)
		for _, m := range machines[1:] {
			answers := m.ask(probes, limit)
			for _, p := range probes {
				if want := p.wanted(m, reference[p]); want != answers[p] {
					differ[p] = true
					last = append(last, fmt.Sprintf("%s: %s: seen as %q, want %q", m.name, p, answers[p], want))
				}
			}
		}
		probes = slices.DeleteFunc(probes, func(p probe) bool { return !differ[p] })
		if limit == patience {
			slices.Sort(last)
			for _, text := range last {
				t.Error(text)
			}
		}
	}
}

// wanted is the answer on a machine, by that of the first one, which has iptables.
func (p probe) wanted(m *machine, reference string) string {
	o := compared[p.network]
	if m.backend == "iptables" || reference == "" {
		return reference
	}
	if o.refusedBy(m.backend) != "" {
		return ""
	}
	return o.withNFTables(p, reference)
}

// withNFTables returns what differs with nftables: it masquerades connections from the task itself and from 127.0.0.1
// alone, also with masqAll. So the answers to another allocation on the bridge do not come back by the host.
func (o option) withNFTables(p probe, reference string) string {
	inFamily := func(ipv4, ipv6 string) string {
		if strings.Contains(reference, ":") {
			return ipv6
		}
		return ipv4
	}
	switch _, masqAll := o.keys["masqAll"]; {
	case p.client == "another allocation" && o.plugin == "ptp":
		return strings.TrimSuffix(reference, "1") + "2" // the first address after the gateway's
	case p.client == "another allocation":
		return ""
	case masqAll && p.client == "the host" && !strings.HasPrefix(p.to, "127."):
		return inFamily(routerAddress, routerAddress6)
	case masqAll && p.client == "the peer":
		return inFamily(peerAddress, peerAddress6)
	}
	return reference
}
