// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package plan

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/allocnet/allocnet/cniconf"
	"github.com/allocnet/allocnet/policy"
	"github.com/allocnet/allocnet/selection"
	"github.com/allocnet/allocnet/state"
)

// TestLongNames: network, container ID and interface are together a file name in libcni's cache.
func TestLongNames(t *testing.T) {
	for length, want := range map[int]string{116: "", 117: "1 bytes shorter", 200: "84 bytes shorter"} {
		request := Request{ID: strings.Repeat("x", 128)}
		_, err := newAttachment(request, selection.Element{Name: strings.Repeat("n", length), Interface: "eth0"}, true, nil)
		var refused *RequestError
		if want == "" && err != nil || want != "" && (!errors.As(err, &refused) || !strings.Contains(refused.Reason, want)) {
			t.Errorf("a network of %d bytes: %v, want %q", length, err, want)
		}
	}
}

func TestSetupOrder(t *testing.T) {
	const (
		way   = `{"type": "bridge", "ipam": {"type": "host-local", "routes": [{"dst": "0.0.0.0/0"}]}}`
		way6  = `{"type": "bridge", "ipam": {"type": "static", "routes": [{"dst": "::/0"}]}}`
		odd   = `{"type": "bridge", "ipam": {"type": "static", "routes": [{"dst": "10.1.2.3/0"}]}}`
		gate  = `{"type": "bridge", "isDefaultGateway": true}`
		plain = `{"type": "bridge", "ipam": {"type": "host-local", "routes": [{"dst": "10.0.0.0/8"}]}}`
		dhcp  = `{"type": "macvlan", "ipam": {"type": "dhcp"}}`
		alien = `{"type": "cilium-cni"}`
		outer = `{"type": "macvlan", "master": "cni0", "ipam": {}}`
		inner = `{"type": "vlan", "master": "net1", "linkInContainer": true, "ipam": {}}`
		tuned = `{"type": "tuning", "sysctl": {"net.ipv4.tcp_syncookies": "1", "net.ipv6.conf.all.forwarding": "1"}}`
		own   = `{"type": "tuning", "sysctl": {"net.ipv6.conf.IFNAME.forwarding": "0"}}`
	)
	for name, test := range map[string]struct {
		plugins []string
		want    string
	}{
		"no default route":         {[]string{plain, plain, plain}, "[] [] []"},
		"default routes in a row":  {[]string{way, plain, way6, gate}, "[] [] [eth0] [net2]"},
		"default routes with bits": {[]string{odd, plain, odd}, "[] [] [eth0]"},
		"unknown plugins, too":     {[]string{alien, dhcp, plain}, "[] [eth0] []"},
		"on an interface inside":   {[]string{plain, plain, inner}, "[] [] [net1]"},
		"only the primary's route": {[]string{way, plain}, "[] []"},
		"a master that is absent":  {[]string{plain, inner}, "[] []"},
		"on the bridge of another": {[]string{outer, plain, outer}, "[] [] [net1]"},
		"of one parameter":         {[]string{tuned, own, plain, tuned, own}, "[] [eth0] [] [eth0 net1] [eth0 net3]"},
	} {
		t.Run(name, func(t *testing.T) {
			p := &Plan{}
			for i, plugin := range test.plugins {
				iface := fmt.Sprintf("net%d", i)
				if i == 0 {
					iface = "eth0"
				}
				list, err := cniconf.ParseList([]byte(`{"cniVersion": "1.0.0", "name": "n", "plugins": [` + plugin + `]}`))
				if err != nil {
					t.Fatal(err)
				}
				p.Added = append(p.Added, Attachment{Attachment: &state.Attachment{Interface: iface}, network: &cniconf.Network{List: list}})
			}
			p.order()
			var got []string
			for _, a := range p.Attachments() {
				got = append(got, fmt.Sprint(a.DependsOn))
			}
			if strings.Join(got, " ") != test.want {
				t.Errorf("after: %v, want %s", got, test.want)
			}
		})
	}
}

// TestPolicyOfFurtherNetworks: existing attachments count.
func TestPolicyOfFurtherNetworks(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "a.conf"), []byte(`{"cniVersion": "1.0.0", "name": "a", "type": "plugin", "allocnet": {"maxAttachments": 1}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	catalog, err := cniconf.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	p := &Plan{
		Existing: []state.Attachment{{Network: "a", Interface: "net1"}},
		Added:    []Attachment{{Element: selection.Element{Name: "a"}, network: catalog.Networks[0]}},
	}
	var denied *policy.DeniedError
	if err := p.permit(Request{}, policy.Source{}); !errors.As(err, &denied) || denied.Rule != "maxAttachments" {
		t.Errorf("a second attachment: %v, want it denied", err)
	}
	p.Existing = nil
	if err := p.permit(Request{}, policy.Source{}); err != nil {
		t.Errorf("a first attachment: %v", err)
	}
}
