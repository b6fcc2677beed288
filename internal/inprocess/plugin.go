// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package inprocess

import (
	"encoding/json"

	pools "github.com/allocnet/allocnet/cluster/ipam"
	"github.com/allocnet/allocnet/internal/inprocess/bandwidth"
	"github.com/allocnet/allocnet/internal/inprocess/bridge"
	"github.com/allocnet/allocnet/internal/inprocess/firewall"
	"github.com/allocnet/allocnet/internal/inprocess/ipam"
	"github.com/allocnet/allocnet/internal/inprocess/ipvlan"
	"github.com/allocnet/allocnet/internal/inprocess/loopback"
	"github.com/allocnet/allocnet/internal/inprocess/macvlan"
	"github.com/allocnet/allocnet/internal/inprocess/plugin"
	"github.com/allocnet/allocnet/internal/inprocess/portmap"
	"github.com/allocnet/allocnet/internal/inprocess/ptp"
	"github.com/allocnet/allocnet/internal/inprocess/tuning"
	"github.com/allocnet/allocnet/internal/inprocess/vlan"
)

// Types of IPAM that are looked for by name.
const (
	ownIPAM  = "allocnet-ipam"
	dhcpIPAM = "dhcp"
)

// plugins are the types that a chain may have.
var plugins = map[string]plugin.Type{
	"bandwidth": bandwidth.Type,
	"bridge":    bridge.Type,
	"firewall":  firewall.Type,
	"ipvlan":    ipvlan.Type,
	"loopback":  loopback.Type,
	"macvlan":   macvlan.Type,
	"portmap":   portmap.Type,
	"ptp":       ptp.Type,
	"tuning":    tuning.Type,
	"vlan":      vlan.Type,
}

// ipams are the types that the key "ipam" of a plugin may have. Their calls have the
// configuration of that plugin; Config is that of the object under "ipam". What does the work of allocnet-ipam the chain has from
// its caller.
var ipams = map[string]plugin.Type{
	ownIPAM: {
		Config: func() any { return &json.RawMessage{} },
		// It refuses what the program refuses, with its error.
		Understands: func(config []byte) error { _, err := pools.Parse(config); return err },
	},
	dhcpIPAM:     ipam.DHCP,
	"host-local": ipam.HostLocal,
	"static":     ipam.Static,
}
