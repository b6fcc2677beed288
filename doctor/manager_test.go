// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package doctor

import (
	"errors"
	"testing"

	"github.com/allocnet/allocnet/internal/netns"
)

// TestManagedLinks: links of attachments that a network manager configures are an error with the command that excludes
// them, and others of attachments. The operator's own links are not, nor those that the manager leaves alone.
func TestManagedLinks(t *testing.T) {
	links := func() ([]netns.Interface, error) {
		return []netns.Interface{
			{Name: "br0", Kind: "bridge"}, {Name: "bwp0123456789ab", Kind: "ifb"}, {Name: "uplink", Kind: "device"}, {Name: "veth0123abcd", Kind: "veth"},
			{Name: "veth0123abce", Kind: "veth"}, {Name: "web0", Kind: "bridge", Group: netns.LinkGroup}, {Name: "web1", Kind: "bridge", Group: netns.LinkGroup},
		}, nil
	}
	networkd := "  2 uplink ether routable configured\n  3 br0 bridge routable configured\n  4 web0 bridge routable configuring\n" +
		" 10 web1 bridge no-carrier unmanaged\n 11 veth0123abcd ether enslaved configured \n 12 veth0123abce ether degraded pending\n 13 bwp0123456789ab ether degraded failed\n"
	networkManager := "uplink:connected\nbr0:connected\nweb0:connected (externally)\nweb1:unavailable\n" +
		"veth0123abcd:connecting (getting IP configuration)\nveth0123abce:disconnected\nbwp0123456789ab:unmanaged\n"
	output := func(command []string) (string, error) {
		return map[string]string{"networkctl": networkd, "nmcli": networkManager}[command[0]], nil
	}
	r := &Report{}
	managedLinks(r, links, []string{"NetworkManager", "systemd-network"}, output)
	const does = ": it takes ports out of bridges, and removes addresses and routes => "
	requireFindings(t, r,
		"error systemd-networkd: configures bwp0123456789ab, veth0123abcd, web0"+does+
			`printf '[Match]\nName=bwp???????????? veth???????? web0 web1\n[Link]\nUnmanaged=yes\n' >/etc/systemd/network/00-cni.network && networkctl reload`,
		"error NetworkManager: configures veth0123abcd, veth0123abce"+does+
			`printf '[keyfile]\nunmanaged-devices+=interface-name:bwp????????????;interface-name:veth????????;interface-name:web0;interface-name:web1\n'`+
			` >/etc/NetworkManager/conf.d/00-cni.conf && nmcli general reload`,
	)
	r = &Report{}
	managedLinks(r, links, []string{"dockerd"}, output)
	requireFindings(t, r)
	managedLinks(r, links, []string{"NetworkManager"}, func([]string) (string, error) { return "", errors.New("exit status 8") })
	requireFindings(t, r, "warning NetworkManager: what it configures is not examined: nmcli: exit status 8 => run allocnet doctor again")
	r = &Report{}
	managedLinks(r, func() ([]netns.Interface, error) { return nil, errors.New("no memory") }, []string{"NetworkManager"}, output)
	requireFindings(t, r, "warning host: its links are not examined: no memory => run allocnet doctor again")
}
