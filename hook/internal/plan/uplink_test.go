// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package plan

import (
	"testing"

	"github.com/allocnet/allocnet/cniconf"
	"github.com/allocnet/allocnet/hook/internal/kernel"
	"github.com/allocnet/allocnet/internal/errdefs"
	"github.com/allocnet/allocnet/internal/netns"
	"github.com/allocnet/allocnet/policy"
)

// outwardHost sends to elsewhere by an interface with an MTU.
type outwardHost struct {
	kernel.Host

	mtu        int
	interfaces []netns.Interface
}

func (h outwardHost) UplinkMTU() (int, error)                { return h.mtu, nil }
func (h outwardHost) Interfaces() ([]netns.Interface, error) { return h.interfaces, nil }

// TestUplinkMTU: that of the default route, less what a VXLAN adds.
func TestUplinkMTU(t *testing.T) {
	const local, vxlan = `{"type": "host-local", "subnet": "10.0.0.0/24"}`, `{"type": "allocnet-ipam", "pool": "web", "ranges": [{"subnet": "10.0.0.0/16"}], "mode": "vxlan"}`
	device := netns.Interface{Name: "vx-web", Kind: "vxlan", Alias: "allocnet pool web", MTU: 8950}
	for name, c := range map[string]struct {
		ipam string
		host outwardHost
		want int
	}{
		"that of the default route": {local, outwardHost{mtu: 9000}, 9000},
		"no default route":          {local, outwardHost{}, 0},
		"a VXLAN":                   {vxlan, outwardHost{mtu: 9000, interfaces: []netns.Interface{device}}, 8950},
		"a VXLAN that is to be":     {vxlan, outwardHost{mtu: 9000}, 8930},
		"that of another pool":      {vxlan, outwardHost{mtu: 9000, interfaces: []netns.Interface{{Kind: "vxlan", Alias: "allocnet pool other", MTU: 1450}}}, 8930},
	} {
		n, err := cniconf.ParseNetwork("a.conflist", []byte(`{"cniVersion": "1.0.0", "name": "a", "allocnet": {"mtuFrom": "uplink"}, "plugins": [{"type": "bridge", "ipam": `+c.ipam+`}]}`))
		if err != nil {
			t.Fatal(err)
		}
		rules, err := policy.Of(n)
		if err != nil {
			t.Fatal(err)
		}
		a := &Attachment{network: n, rules: rules}
		got, err := a.uplinkMTU(c.host)
		if got != c.want || (errdefs.Of(err) == errdefs.Refused) != (c.want == 0) {
			t.Errorf("%s: %d, %v, want %d", name, got, err, c.want)
		}
	}
	if mtu, err := (&Attachment{}).uplinkMTU(outwardHost{mtu: 9000}); mtu != 0 || err != nil {
		t.Errorf("without the key: %d, %v", mtu, err)
	}
}
