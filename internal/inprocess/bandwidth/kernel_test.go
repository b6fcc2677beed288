// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package bandwidth

import (
	"fmt"
	"strings"
	"testing"

	current "github.com/containernetworking/cni/pkg/types/100"
	"github.com/containernetworking/plugins/pkg/ns"
	"github.com/vishvananda/netlink"

	"github.com/allocnet/allocnet/internal/inprocess/iface"
	"github.com/allocnet/allocnet/internal/inprocess/links"
	"github.com/allocnet/allocnet/internal/inprocess/plugin"
	"github.com/allocnet/allocnet/internal/inprocess/remedy"
	"github.com/allocnet/allocnet/internal/roottest"
)

// TestLimits: a limit has both numbers, and follows an interface.
func TestLimits(t *testing.T) {
	for config, want := range map[string]string{
		`"ingressRate": 8000, "ingressBurst": 80000`:  "must be called as chained plugin",
		`"ingressRate": 8000`:                         "if rate is set, burst must also be set",
		`"egressBurst": 8000`:                         "if burst is set, rate must also be set",
		`"egressBurst": 34359738360, "egressRate": 8`: "burst cannot be more than 4GB",
		`"egressRate": "8"`:                           "failed to parse network configuration",
		`"prevResult": {"cniVersion": "1.0.0"}, "egressRate": 8000, "egressBurst": 80000`: "no interfaces provided",
	} {
		if _, err := add(&plugin.Call{Version: "1.0.0", Config: []byte(`{"cniVersion": "1.0.0", "name": "n", ` + config + `}`)}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", config, err, want)
		}
	}
}

// attach makes an interface with a host's end, and returns the call that limits it.
func attach(t *testing.T) (*plugin.Call, netlink.Link) {
	t.Helper()
	namespace, err := ns.TempNetNS()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = namespace.Close() })
	c := &plugin.Call{IfName: "eth0", Netns: fmt.Sprint("/proc/self/fd/", namespace.Fd()), Network: "n", ContainerID: t.Name(), Version: "1.0.0", Changes: &plugin.Changes{}, Repair: &remedy.Repair{}}
	host, inside, err := iface.AddVeth(c, namespace, 1500, "", "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = netlink.LinkDel(host) })
	configure(c, []*current.Interface{links.Interface(host, ""), links.Interface(inside, c.Netns)}, 8000000, 16000000)
	return c, host
}

func configure(c *plugin.Call, interfaces []*current.Interface, ingress, egress int) {
	text := ""
	for _, i := range interfaces {
		text += fmt.Sprintf(`, {"name": %q, "mac": %q, "sandbox": %q}`, i.Name, i.Mac, i.Sandbox)
	}
	c.Config = fmt.Appendf(nil, `{"cniVersion": "1.0.0", "name": "n", "ingressRate": %d, "ingressBurst": 800000, "egressRate": %d, "egressBurst": 800000, "prevResult": {"cniVersion": "1.0.0", "interfaces": [%s]}}`,
		ingress, egress, strings.TrimPrefix(text, ", "))
}

// TestRootLimitsAreKept: a repair notices what is missing or another limit, and makes it again.
func TestRootLimitsAreKept(t *testing.T) {
	roottest.Require(t)
	c, host := attach(t)
	result, err := add(c)
	if err != nil {
		t.Fatal(err)
	}
	device, err := netlink.LinkByName(deviceOf(c))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = netlink.LinkDel(&netlink.Ifb{LinkAttrs: netlink.LinkAttrs{Name: deviceOf(c)}}) })
	if err := redirect(host.Attrs().Index, device.Attrs().Index); err == nil {
		t.Error("a second redirection is no error")
	}
	configure(c, result.Interfaces, 8000000, 16000000)
	lacks := func() []string {
		t.Helper()
		c.Repair = &remedy.Repair{DryRun: true}
		if err := repair(c); err != nil {
			t.Error(err)
		}
		return c.Repair.Missing
	}
	if missing := lacks(); len(missing) > 0 {
		t.Errorf("missing are %q", missing)
	}
	for _, rates := range [][2]int{{9000000, 16000000}, {8000000, 17000000}} {
		configure(c, result.Interfaces, rates[0], rates[1])
		if missing := lacks(); len(missing) != 1 || !strings.HasPrefix(missing[0], "limit of ") {
			t.Errorf("other limits: missing are %q", missing)
		}
	}
	configure(c, result.Interfaces, 8000000, 16000000)
	for what, damage := range map[string]func() error{
		"the device":      func() error { return netlink.LinkDel(device) },
		"the redirection": func() error { return dropIngress(host) },
		"the limit":       func() error { return netlink.QdiscDel(limit{8000000, 800000}.qdisc(host.Attrs().Index)) },
	} {
		if err := damage(); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		c.Repair = &remedy.Repair{}
		if err := repair(c); err != nil || len(c.Repair.Missing) != 1 {
			t.Errorf("%s: %v, missing are %q", what, err, c.Repair.Missing)
		}
		if device, err = netlink.LinkByName(deviceOf(c)); err != nil {
			t.Fatal(err)
		}
		if redirected, err := redirects(host, device); !redirected || err != nil || len(lacks()) > 0 {
			t.Errorf("%s is missing still: redirected %t, %v, %q", what, redirected, err, c.Repair.Missing)
		}
	}
}
