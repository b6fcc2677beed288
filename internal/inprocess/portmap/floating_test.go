// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package portmap

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os/exec"
	"slices"
	"strings"
	"testing"

	current "github.com/containernetworking/cni/pkg/types/100"

	"github.com/allocnet/allocnet/internal/inprocess/plugin"
	"github.com/allocnet/allocnet/internal/inprocess/remedy"
	"github.com/allocnet/allocnet/internal/netns"
	"github.com/allocnet/allocnet/internal/netns/netnstest"
	"github.com/allocnet/allocnet/internal/roottest"
)

// fakePool is the pool of published addresses.
type fakePool struct {
	// refuses is why it gives none.
	refuses error
	// asked has the configurations of ADD, and freed those of DEL.
	asked, freed []string
}

func (p *fakePool) ipam(name string) (plugin.Type, bool) {
	return plugin.Type{
		Add: func(c *plugin.Call) (*current.Result, error) {
			p.asked = append(p.asked, string(c.Config))
			return &current.Result{CNIVersion: "1.0.0", IPs: []*current.IPConfig{{Address: net.IPNet{IP: net.IPv4(192, 0, 2, 50), Mask: net.CIDRMask(24, 32)}}}}, p.refuses
		},
		Del: func(c *plugin.Call) error { p.freed = append(p.freed, string(c.Config)); return nil },
	}, name == "allocnet-ipam"
}

const floatingPorts = `"cniVersion": "1.0.0", "publishAddress": {"addresses": ["192.0.2.50", "2001:db8:2::50"], "interface": "pub0", "ipam": {"pool": "public"}},
	"runtimeConfig": {"portMappings": [{"hostPort": 8080, "containerPort": 80, "protocol": "tcp", "hostIP": "192.0.2.50"}]},
	"prevResult": {"cniVersion": "1.0.0", "ips": [{"address": "10.0.0.1/24"}]}`

// TestFloating: the pool is asked before anything is made, by the operator's words alone, and is given the addresses back after all is
// removed. An allocation without ports has none.
func TestFloating(t *testing.T) {
	p := &fakePool{refuses: errors.New("another host has it")}
	call := func(keys string) *plugin.Call {
		c := portmapCall(keys)
		c.IPAM, c.Version, c.Ctx = p.ipam, "1.0.0", t.Context()
		return c
	}
	c := call(floatingPorts)
	if _, err := add(c); !errors.Is(err, p.refuses) || len(c.Changes.After) > 0 {
		t.Errorf("without the addresses: %v, and %d changes", err, len(c.Changes.After))
	}
	for _, want := range []string{`"args":{"allocnet":{"publish":["192.0.2.50","2001:db8:2::50"]}}`, `"ipam":{"pool":"public"}`} {
		if !strings.Contains(p.asked[0], want) || strings.Contains(p.asked[0], "runtimeConfig") {
			t.Errorf("the pool is asked for %s, want %s", p.asked[0], want)
		}
	}
	p.refuses, p.asked = nil, nil
	c = call(strings.Replace(floatingPorts, "portMappings", "none", 1))
	if _, err := add(c); err != nil || len(p.asked) > 0 {
		t.Errorf("without ports: %v, and the pool is asked for %v", err, p.asked)
	}
	c = call(floatingPorts)
	if err := del(c); err != nil || len(p.freed) > 0 {
		t.Errorf("before the rules are removed: %v, freed %v", err, p.freed)
	}
	for _, keeps := range []bool{false, true} { // a repair has the pool keep them until ADD
		c = call(strings.Replace(floatingPorts, `"publishAddress"`, fmt.Sprintf(`"args": {"allocnet": {"keepAddresses": %v}}, "publishAddress"`, keeps), 1))
		later, err := (&floating{Addresses: []netip.Addr{netip.MustParseAddr("192.0.2.50")}}).call(c.Ctx, c)
		if err != nil || strings.Contains(string(later.Config), `"keepAddresses":true`) != keeps {
			t.Errorf("kept: %v: the pool is asked for %s, %v", keeps, later.Config, err)
		}
	}
}

// TestRootFloating: an address that is missing is named, and comes back only if the pool still has it for the attachment.
func TestRootFloating(t *testing.T) {
	roottest.Require(t)
	netnstest.Run(t, func() error {
		run := func(command string) {
			t.Helper()
			if out, err := exec.Command("sh", "-ec", command).CombinedOutput(); err != nil {
				t.Fatalf("%s: %v: %s", command, err, out)
			}
		}
		run("ip link add pub0 type veth peer name pub1; ip link set pub0 up; ip link set pub1 up")
		p := &fakePool{}
		f := &floating{Addresses: []netip.Addr{netip.MustParseAddr("192.0.2.50"), netip.MustParseAddr("2001:db8:2::50")}, Interface: "pub0", IPAM: []byte(`{}`)}
		c := &plugin.Call{Ctx: t.Context(), Version: "1.0.0", Config: []byte("{}"), IPAM: p.ipam, Repair: &remedy.Repair{}}
		require := func(when string, missing int) {
			t.Helper()
			lacks, err := f.missing()
			if found, _ := netns.Published(); len(found) != 2-missing || len(lacks) != missing || err != nil {
				t.Errorf("%s: published are %v, and missing %v, %v", when, found, lacks, err)
			}
		}
		require("before", 2)
		if err := f.publish(); err != nil {
			return err
		}
		require("published", 0)
		run("ip address delete 192.0.2.50/32 dev pub0")
		require("removed", 1)
		c.Repair.DryRun = true
		if err := f.repair(c); err != nil || !slices.Equal(c.Repair.Missing, []string{"interface pub0 of the host lacks the published address 192.0.2.50"}) || len(p.asked) > 0 {
			t.Errorf("a report: %v, %v, asked %v", c.Repair.Missing, err, p.asked)
		}
		c.Repair = &remedy.Repair{}
		p.refuses = errors.New("another host has it")
		if err := f.repair(c); !errors.Is(err, p.refuses) {
			t.Errorf("of another host: %v", err)
		}
		require("of another host", 1)
		p.refuses = nil
		if err := f.repair(c); err != nil {
			return err
		}
		require("repaired", 0)
		return nil
	})
}
