// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package hook

import (
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/allocnet/allocnet/internal/errdefs"
	"github.com/allocnet/allocnet/internal/netns"
	"github.com/allocnet/allocnet/selection"
)

// sources are the ways by which a request can choose an address or a MAC of an attachment.
var sources = map[string]func(r *Request, network, ip, mac string){
	"element": func(r *Request, network, ip, mac string) {
		e := selection.Element{Name: network, MAC: mac}
		if ip != "" {
			e.IPs = []string{ip}
		}
		r.Networks = append(r.Networks, e)
	},
	"primary": func(r *Request, network, ip, mac string) {
		r.Primary = &selection.Element{Name: network, MAC: mac}
		if ip != "" {
			r.Primary.IPs = []string{ip}
		}
	},
	"cni-args": func(r *Request, network, ip, mac string) {
		args := map[string]any{}
		if ip != "" {
			args["ips"] = []any{ip}
		}
		if mac != "" {
			args["mac"] = strings.ToUpper(mac)
		}
		r.Networks = append(r.Networks, selection.Element{Name: network, CNIArgs: args})
	},
	"cni-args in capitals": func(r *Request, network, ip, mac string) {
		r.Networks = append(r.Networks, selection.Element{Name: network, CNIArgs: map[string]any{"IPS": ip, "MAC": mac}})
	},
	"CNI_ARGS": func(r *Request, network, ip, mac string) {
		r.Networks, r.Args = append(r.Networks, selection.Element{Name: network}), map[string]string{"IP": ip, "MAC": mac}
	},
}

// newChoices returns an engine with networks whose addresses can be chosen, on a host with an
// uplink, and with an allocation that has addresses.
func newChoices(t *testing.T) *memory {
	m := newMemory(t, nil)
	m.host.interfaces = []netns.Interface{
		{Name: "uplink", MAC: "02:00:00:00:01:01", Addresses: []netip.Prefix{netip.MustParsePrefix("192.168.1.10/24"), netip.MustParsePrefix("2001:db8::2/64")}},
		{Name: "st0", MAC: "02:00:00:00:01:02", Addresses: []netip.Prefix{netip.MustParsePrefix("172.16.0.1/24")}},
	}
	m.host.gateways = map[string]netip.Addr{"02:00:00:00:01:03": netip.MustParseAddr("192.168.1.1")}
	write := func(name, options, ipam string) {
		m.network(t, name, `{"type": "bridge", "bridge": "st0", "isGateway": true, "capabilities": {"ips": true, "mac": true}, "ipam": `+ipam+`}`)
		path := m.confDir + "/" + name + ".conflist"
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(strings.Replace(string(data), `"plugins"`, options+`"plugins"`, 1)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, ipam := range []string{"static", "host-local"} {
		if err := os.WriteFile(filepath.Join(m.env.Config.PluginDirs[0], ipam), nil, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	ranges := `"allocnet": {"staticIPs": ["172.16.0.0/24", "192.168.1.64-192.168.1.95/24", "2001:db8::/64", "2001:db8:1::/64"]}, `
	write("static", ranges, `{"type": "static", "addresses": [{"address": "172.16.0.5/24", "gateway": "172.16.0.254"}]}`)
	write("unnamed", "", `{"type": "static"}`)
	write("denied", `"allocnet": {"staticIPs": false, "staticMAC": false}, `, `{"type": "static"}`)
	write("pool", "", `{"type": "host-local", "dataDir": "`+t.TempDir()+`", "ranges": [[{"subnet": "172.17.0.0/24", "rangeEnd": "172.17.0.99"}]]}`)
	if _, err := m.Setup(t.Context(), Request{ID: "holder", Networks: []selection.Element{{Name: "static", IPs: []string{"172.16.0.77/24"}, MAC: "02:00:00:00:02:77"}}}); err != nil {
		t.Fatal(err)
	}
	return m
}

// TestChosenAddresses: what a job may not choose is refused by each source, before a plugin runs.
func TestChosenAddresses(t *testing.T) {
	m := newChoices(t)
	m.exec.names()
	for name, test := range map[string]struct{ network, ip, mac, want string }{
		"no ranges":                    {"unnamed", "172.16.0.9/24", "", "has no ranges of addresses that a job may choose from"},
		"denied":                       {"denied", "172.16.0.9/24", "", "may not choose its addresses"},
		"MAC denied":                   {"denied", "", "02:00:00:00:00:09", "may not choose its MAC"},
		"out of the ranges":            {"static", "172.16.1.9/24", "", "may not choose the address 172.16.1.9/24"},
		"another prefix length":        {"static", "172.16.0.9/1", "", "may not choose the address 172.16.0.9/1"},
		"no prefix length":             {"static", "172.16.0.9", "", "may not choose the address 172.16.0.9"},
		"the configured gateway":       {"static", "172.16.0.254/24", "", "is the gateway of the network"},
		"the gateway by default":       {"static", "172.16.0.1/24", "", "is the gateway of the network"},
		"a subnet of the host":         {"static", "192.168.1.70/24", "", "is in a subnet of this host, 192.168.1.0/24 on uplink"},
		"an IPv6 address of the host":  {"static", "2001:db8::2/64", "", "is an address of this host, on uplink"},
		"on record":                    {"static", "172.16.0.77/24", "", "allocation holder has it"},
		"on record, mapped":            {"static", "::ffff:172.16.0.77/120", "", "allocation holder has it"},
		"a MAC on record":              {"static", "", "02:00:00:00:02:77", "allocation holder has it"},
		"a MAC on the same bridge":     {"pool", "", "02:00:00:00:02:77", "allocation holder has it"},
		"a MAC of the host":            {"static", "", "02:00:00:00:01:01", "is the MAC of uplink of this host"},
		"a MAC of a router":            {"pool", "", "02:00:00:00:01:03", "is the MAC of the gateway 192.168.1.1"},
		"a MAC of the bridge":          {"pool", "", "02:00:00:00:01:02", "is the MAC of st0 of this host"},
		"out of the pool":              {"pool", "172.17.0.100", "", "is not in a range of the network"},
		"the pool's gateway":           {"pool", "172.17.0.1", "", "is the gateway of the network"},
		"another length than the pool": {"pool", "172.17.0.9/16", "", "has the prefix length 16, and the network has 24"},
	} {
		for way, choose := range sources {
			r := Request{ID: "chooser"}
			choose(&r, test.network, test.ip, test.mac)
			_, err := m.Setup(t.Context(), r)
			if err == nil || !strings.Contains(err.Error(), test.want) || errdefs.Of(err) != errdefs.Refused {
				t.Errorf("%s, by %s: %v, want %q", name, way, err, test.want)
			}
		}
	}
	if calls := m.exec.names(); len(calls) > 0 {
		t.Errorf("plugins ran: %v", calls)
	}
}

// TestChosenAddressesAllowed: what is within the rules is attached by each source, and is free
// again after the teardown.
func TestChosenAddressesAllowed(t *testing.T) {
	m := newChoices(t)
	for name, test := range map[string]struct{ network, ip, mac string }{
		"static": {"static", "172.16.0.9/24", "02:00:00:00:00:09"}, "IPv6": {"static", "2001:db8:1::9/64", ""},
		"pool": {"pool", "172.17.0.9", ""}, "pool, with its length": {"pool", "172.17.0.9/24", "02:00:00:00:00:09"},
	} {
		for way, choose := range sources {
			if way == "CNI_ARGS" && strings.Contains(test.ip, "/") {
				continue // the fake takes a plain address there
			}
			r := Request{ID: "chooser"}
			choose(&r, test.network, test.ip, test.mac)
			if _, err := m.Setup(t.Context(), r); err != nil {
				t.Errorf("%s, by %s: %v", name, way, err)
			}
			if err := m.Teardown(t.Context(), "chooser"); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// TestChosenGateway: with passArgs a job could have the host take an address.
func TestChosenGateway(t *testing.T) {
	m := newChoices(t)
	r := Request{ID: "chooser", Networks: named("pool"), Args: map[string]string{"GATEWAY": "172.17.0.9"}}
	if _, err := m.Setup(t.Context(), r); err == nil || !strings.Contains(err.Error(), "may not choose the gateway") {
		t.Error(err)
	}
}

// TestOperatorChooses needs no ranges, and gets no address that another one has.
func TestOperatorChooses(t *testing.T) {
	m := newChoices(t)
	for address, want := range map[string]string{"172.16.0.78/24": "", "172.16.0.77/24": "allocation holder has it"} {
		_, err := m.Setup(t.Context(), Request{ID: "chooser", Operator: true, Networks: []selection.Element{{Name: "unnamed", IPs: []string{address}}}})
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", address, err, want)
		}
		if err := m.Teardown(t.Context(), "chooser"); err != nil {
			t.Fatal(err)
		}
	}
}

// TestChosenTwice: further attachments of one allocation get no address of an earlier one.
func TestChosenTwice(t *testing.T) {
	m := newChoices(t)
	e := selection.Element{Name: "static", MAC: "02:00:00:00:00:09"}
	if _, err := m.Setup(t.Context(), Request{ID: "chooser", Networks: []selection.Element{e, e}}); err == nil || !strings.Contains(err.Error(), "interface net2 has it") {
		t.Errorf("in one request: %v", err)
	}
	if _, err := m.Extend(t.Context(), Request{ID: "holder", Networks: []selection.Element{{Name: "static", IPs: []string{"172.16.0.77/24"}}}}); err == nil || !strings.Contains(err.Error(), "interface net1 has it") {
		t.Errorf("in a later one: %v", err)
	}
}

// TestChosenOnTheDefaultMaster: a network without a master is on that of the default route, as another one that names it, or has
// an alternative name of it.
func TestChosenOnTheDefaultMaster(t *testing.T) {
	for _, networks := range [][2]string{{"named", "default"}, {"default", "named"}, {"default", "other"}, {"named", "alternative"}, {"alternative", "named"}} {
		m := newMemory(t, nil)
		m.host.links = map[string]bool{"uplink": true, "enp1s0": true}
		m.host.interfaces = []netns.Interface{{Name: "uplink", AlternativeNames: []string{"enp1s0"}}}
		m.network(t, "named", `{"type": "macvlan", "master": "uplink", "capabilities": {"mac": true}}`)
		m.network(t, "default", `{"type": "macvlan", "capabilities": {"mac": true}}`)
		m.network(t, "alternative", `{"type": "macvlan", "master": "enp1s0", "capabilities": {"mac": true}}`)
		m.network(t, "other", `{"type": "macvlan", "capabilities": {"mac": true}}`)
		choose := func(id, network string) error {
			_, err := m.Setup(t.Context(), Request{ID: id, Networks: []selection.Element{{Name: network, MAC: "02:00:00:00:00:09"}}})
			return err
		}
		both := []selection.Element{{Name: networks[0], MAC: "02:00:00:00:00:09"}, {Name: networks[1], MAC: "02-00-00-00-00-09"}}
		if _, err := m.Setup(t.Context(), Request{ID: "both", Networks: both}); err == nil || !strings.Contains(err.Error(), "interface net2 has it") {
			t.Errorf("%v in one request: %v", networks, err)
		}
		if err := choose("holder", networks[0]); err != nil {
			t.Fatal(err)
		}
		if err := choose("chooser", networks[1]); err == nil || !strings.Contains(err.Error(), "allocation holder has it") {
			t.Errorf("%v: %v", networks, err)
		}
	}
}
