// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package differential

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/allocnet/allocnet/hook"
	"github.com/allocnet/allocnet/internal/exhaustive"
	"github.com/allocnet/allocnet/internal/sandbox"
	"github.com/allocnet/allocnet/selection"
)

// notAttached begins the failure of a configuration that the engine refuses, or cannot attach.
const notAttached = "not attached"

// TestHealthy: what has just been attached, whatever its options and however they are spelled, is whole for check, for
// repair and for a runtime's CHECK, and its teardown leaves nothing, with each executor.
func TestHealthy(t *testing.T) {
	var attached, examined atomic.Int32
	t.Run("each", func(t *testing.T) {
		for _, c := range healthyConfigurations() {
			exhaustive.Run(t, c.Name, func(t *testing.T) {
				t.Parallel()
				examined.Add(1)
				a := compare(t, c)
				for _, d := range a.Differences {
					t.Error(d)
				}
				if a.Failure == "" {
					attached.Add(1)
				} else if slices.ContainsFunc(repeated, func(variants []variant) bool { return gatewayFamily.with(variants).Name == c.Name }) {
					t.Errorf("it is to be attached: %s", a.Failure)
				} else if !strings.HasPrefix(a.Failure, notAttached) {
					t.Error(a.Failure)
				}
				if t.Failed() {
					t.Log(c)
				}
			})
		}
	})
	if attached.Load()*2 < examined.Load() {
		t.Errorf("only %d of %d configurations are attached", attached.Load(), examined.Load())
	}
}

// healthyConfigurations are those of the matrix that no step damages, and other spellings.
func healthyConfigurations() []configuration {
	all := slices.DeleteFunc(matrix(), func(c configuration) bool {
		return slices.ContainsFunc(c.Steps, func(step string) bool { return !isVerb(step) })
	})
	for _, v := range spellings {
		all = append(all, gatewayFamily.with([]variant{v}))
	}
	for _, variants := range repeated {
		all = append(all, gatewayFamily.with(variants))
	}
	for i := range all {
		all[i].Healthy = true
	}
	return all
}

// spellings are further forms of values that plugins accept.
var spellings = []variant{
	ranges("subnet in capitals", map[string]any{"subnet": "FD00:50:0::/64"}),
	ranges("subnet with host bits", map[string]any{"subnet": "10.50.0.9/24"}),
	ranges("range spelled long", map[string]any{"subnet": "fd00:0050:0000::/64", "rangeStart": "FD00:50::000A", "rangeEnd": "fd00:50::00ff", "gateway": "fd00:50:0:0::0001"}),
	ipam("route with host bits", map[string]any{"routes": []map[string]any{{"dst": "192.168.7.9/24"}}}),
	ipam("route spelled long", map[string]any{"routes": []map[string]any{{"dst": "FD00:0099::/64"}, {"dst": "192.168.8.0/24", "gw": "10.50.0.1"}}}),
	ipam("route to a host", map[string]any{"routes": []map[string]any{{"dst": "192.0.2.1/32"}, {"dst": "224.0.0.0/4"}}}),
	ipam("routes of default size", map[string]any{"routes": []map[string]any{{"dst": "0.0.0.0/1"}, {"dst": "128.0.0.0/1"}}}),
	{"MAC in capitals", func(d *draft) { capability(d, d.plugin, "mac", "02:00:00:00:AB:CD") }},
	{"MAC with dashes", func(d *draft) { capability(d, d.plugin, "mac", "02-00-00-00-ab-cd") }},
	set("mtu 0", map[string]any{"mtu": 0}),
	set("all off", map[string]any{"mtu": 0, "vlan": 0, "ipMasq": false, "hairpinMode": false, "promiscMode": false, "forceAddress": false, "isDefaultGateway": false, "enabledad": false}),
	mapped("portmap in capitals", nil, mapping{"hostPort": 8080, "containerPort": 80, "protocol": "UDP"}),
	mapped("portmap hostIP spelled long", nil, mapping{"hostPort": 8080, "containerPort": 80, "protocol": "tcp", "hostIP": "FD00:0050::0001"}),
	mapped("portmap same port, both protocols", nil, web, mapping{"hostPort": 8080, "containerPort": 80, "protocol": "udp"}),
	mapped("portmap same port, several addresses", nil, mapping{"hostPort": 8080, "containerPort": 80, "protocol": "tcp", "hostIP": "192.0.2.1"}, mapping{"hostPort": 8080, "containerPort": 81, "protocol": "tcp", "hostIP": "192.0.2.2"}),
	mapped("portmap conditions spelled long", map[string]any{"conditionsV4": []string{"--source", "192.0.2.0/255.255.255.0", "!", "--destination", "192.0.2.9"}}, web),
	mapped("portmap conditions of a host", map[string]any{"conditionsV4": []string{"-s", "192.0.2.9"}}, web),
	mapped("portmap conditions with a match", map[string]any{"conditionsV4": []string{"-m", "mac", "--mac-source", "02:00:00:00:AB:CD"}}, web),
	mapped("portmap conditions, nftables, spelled long", map[string]any{"backend": "nftables", "conditionsV4": []string{"ip", "saddr", "192.0.2.9/32", "tcp", "dport", "8080-8080"}}, web),
	chained("firewall policy in capitals", map[string]any{"type": "firewall", "ingressPolicy": "Same-Bridge"}),
	chained("tuning sysctl with blanks", map[string]any{"type": "tuning", "sysctl": map[string]any{"net.ipv4.ip_local_port_range": "2000\t3000", "net.ipv4.conf.IFNAME.rp_filter": " 2 "}}),
	chained("tuning sysctl in hex", map[string]any{"type": "tuning", "sysctl": map[string]any{"net.ipv4.conf.IFNAME.rp_filter": "0x2", "net.ipv4.tcp_keepalive_time": "007"}}),
	chained("tuning sysctl with slashes", map[string]any{"type": "tuning", "sysctl": map[string]any{"net/ipv6/conf/IFNAME/accept_ra": "0"}}),
	chained("tuning sysctl of three numbers", map[string]any{"type": "tuning", "sysctl": map[string]any{"net.ipv4.tcp_rmem": "4096 131072 6291456"}}),
	chained("tuning sysctl of a text", map[string]any{"type": "tuning", "sysctl": map[string]any{"net.ipv4.tcp_congestion_control": "reno"}}),
	chained("tuning MAC in capitals", map[string]any{"type": "tuning", "mac": "02:00:00:00:AB:CD"}),
	chained("tuning MAC with dashes", map[string]any{"type": "tuning", "mac": "02-00-00-00-ab-cd"}),
	chained("tuning MAC with dots", map[string]any{"type": "tuning", "mac": "0200.0000.abcd"}),
	chained("tuning all off", map[string]any{"type": "tuning", "promisc": false, "mtu": 0, "allmulti": false, "txQLen": 0}),
	chained("bandwidth odd numbers", map[string]any{"type": "bandwidth", "ingressRate": 1234567, "ingressBurst": 100003, "egressRate": 999999937, "egressBurst": 1000003}),
	chained("bandwidth small", map[string]any{"type": "bandwidth", "ingressRate": 1000, "ingressBurst": 12176, "egressRate": 1001, "egressBurst": 12183}),
	chained("bandwidth large", map[string]any{"type": "bandwidth", "egressRate": 40000000001, "egressBurst": 2000000001}),
	{"dns with blanks", func(d *draft) {
		d.plugin["dns"] = map[string]any{"nameservers": []string{"FD00:0050::53", "10.50.0.53"}, "domain": "Example.ORG.", "search": []string{"Example.ORG."}, "options": []string{"ndots:2", "rotate"}}
	}},
	{"unknown keys", func(d *draft) { d.plugin["_comment"], d.plugin["x-team"] = "a note", "core" }},
}

// repeated have several plugins of a chain, or several networks, that set the same.
var repeated = [][]variant{
	{
		chained("tuning twice", map[string]any{"type": "tuning", "mtu": 1300, "mac": "02:00:00:00:00:21", "promisc": true, "allmulti": true, "txQLen": 20, "sysctl": map[string]any{"net.ipv4.tcp_syncookies": "0", "net.ipv4.conf.IFNAME.forwarding": "0", "net.ipv6.conf.IFNAME.forwarding": "0"}}),
		chained("other values", map[string]any{"type": "tuning", "mtu": 1400, "mac": "02:00:00:00:00:22", "promisc": true, "allmulti": false, "txQLen": 30, "sysctl": map[string]any{"net/ipv4/tcp_syncookies": "1", "net.ipv4.ip_forward": "1", "net.ipv6.conf.all.forwarding": "1"}}),
	},
	{
		{"tuning MAC", func(d *draft) {
			plugin := map[string]any{"type": "tuning"}
			capability(d, plugin, "mac", "02:00:00:00:00:23")
			d.chain = append(d.chain, plugin)
		}},
		chained("another MAC", map[string]any{"type": "tuning", "mac": "02:00:00:00:00:24"}),
	},
	{mapped("portmap twice", nil, web), mapped("with conditions", map[string]any{"conditionsV4": []string{"-s", "192.0.2.9"}}, web)},
	{mapped("portmap nftables twice", map[string]any{"backend": "nftables"}, web), mapped("again", map[string]any{"backend": "nftables"}, web)},
	{chained("firewall twice", map[string]any{"type": "firewall"}), chained("same-bridge", map[string]any{"type": "firewall", "ingressPolicy": "same-bridge"})},
	{chained("bandwidth ingress", map[string]any{"type": "bandwidth", "ingressRate": 1000000, "ingressBurst": 100000}), chained("egress", map[string]any{"type": "bandwidth", "egressRate": 1000000, "egressBurst": 100000})},
	{
		chained("parameter of two networks", map[string]any{"type": "tuning", "sysctl": map[string]any{"net.ipv4.tcp_syncookies": "0", "net.ipv6.conf.IFNAME.forwarding": "0"}}),
		joined("", another(2, `{"type":"bridge","bridge":"br2","ipam":{"type":"host-local","subnet":"10.62.0.0/24"}},{"type":"tuning","sysctl":{"net.ipv4.tcp_syncookies":"1","net.ipv6.conf.all.forwarding":"1"}}`)),
	},
}

// healthy returns what is wrong with what was just attached.
func (h *host) healthy(c configuration) ([]string, error) {
	var wrong []string
	var refused error
	for _, executor := range []string{hook.ExecutorAuto, hook.ExecutorPlugins} {
		if err := h.reset(); err != nil {
			return nil, err
		}
		for _, command := range c.Prepare {
			if err := run(command); err != nil {
				return nil, err
			}
		}
		found, err := examine(c, executor)
		for _, problem := range found {
			wrong = append(wrong, "executor "+executor+": "+problem)
		}
		if err != nil {
			refused = errors.Join(refused, fmt.Errorf("%s: executor %s: %w", notAttached, executor, err))
		}
	}
	return wrong, refused
}

// examine attaches a configuration, looks at it in each way, and tears it down. The error is that it is not attached.
func examine(c configuration, executor string) (wrong []string, err error) {
	e, err := hook.NewEngine(hook.Config{ConfDirs: []string{"/run/conf"}, StateDir: "/run/state", PluginDirs: []string{sandbox.PluginDir()}, PolicyFile: "/run/none", Executor: executor})
	if err != nil {
		return nil, err
	}
	r, err := requestOf(c)
	if err != nil {
		return nil, err
	}
	ctx := context.Background()
	if _, err := e.Setup(ctx, r); err != nil {
		return nil, err
	}
	note := func(what string, err error) {
		if err != nil {
			wrong = append(wrong, what+": "+err.Error())
		}
	}
	_, err = e.Check(ctx, r.ID)
	note("check", err)
	drifts, err := e.RepairAttachments(ctx, hook.RepairRequest{Mode: hook.RepairReport})
	note("repair --dry-run", err)
	for _, d := range drifts {
		note("repair --dry-run", fmt.Errorf("%+v", d))
	}
	note("CHECK", e.Verify(ctx, hook.Verification{ID: r.ID, Netns: r.Netns, Interface: "eth0"}))
	note("teardown", e.Teardown(ctx, r.ID))
	return wrong, nil
}

// requestOf writes the networks of a configuration, and returns the request for them.
func requestOf(c configuration) (hook.Request, error) {
	r := hook.Request{ID: containerID, Netns: namespacePath, Operator: true, Args: map[string]string{}}
	if err := os.MkdirAll("/run/conf", 0o700); err != nil {
		return r, err
	}
	for i, n := range c.Networks {
		var list struct{ Name string }
		if err := json.Unmarshal([]byte(n.List), &list); err != nil {
			return r, err
		}
		element := selection.Element{Name: list.Name, Interface: fmt.Sprintf("eth%d", i)}
		if n.Capabilities != "" {
			if err := json.Unmarshal([]byte(n.Capabilities), &element); err != nil {
				return r, err
			}
		}
		if err := os.WriteFile(filepath.Join("/run/conf", fmt.Sprintf("%d.conflist", i)), []byte(n.List), 0o600); err != nil {
			return r, err
		}
		for _, pair := range n.Args {
			r.Args[pair[0]] = pair[1]
		}
		if i == 0 {
			r.Primary = &element
		} else {
			r.Networks = append(r.Networks, element)
		}
	}
	return r, nil
}
