// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package bridge

import (
	"fmt"
	"slices"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/internal/kernelevents"
)

// settings are those of a port of a bridge.
type settings struct{ hairpin, isolated bool }

// settingsOf asks for a port alone. A listing has all ports of the host, one of which is asked for of each attachment. The link is an error if it is
// gone, or no port.
func settingsOf(port netlink.Link) (settings, error) {
	request := nl.NewNetlinkRequest(unix.RTM_GETLINK, 0)
	message := nl.NewIfInfomsg(unix.AF_UNSPEC)
	message.Index = int32(port.Attrs().Index)
	request.AddData(message)
	replies, err := request.Execute(unix.NETLINK_ROUTE, unix.RTM_NEWLINK)
	if err != nil {
		return settings{}, fmt.Errorf("settings of the port %s: %w", port.Attrs().Name, err)
	}
	for _, reply := range replies {
		info := kernelevents.AttributesOf(kernelevents.AttributesOf(reply[unix.SizeofIfInfomsg:])[unix.IFLA_LINKINFO])
		if info.Text(nl.IFLA_INFO_SLAVE_KIND) == "bridge" {
			of := kernelevents.AttributesOf(info[nl.IFLA_INFO_SLAVE_DATA])
			is := func(setting uint16) bool { return slices.Equal(of[setting], []byte{1}) }
			return settings{hairpin: is(nl.IFLA_BRPORT_MODE), isolated: is(nl.IFLA_BRPORT_ISOLATED)}, nil
		}
	}
	return settings{}, fmt.Errorf("settings of the port %s: it is no port of a bridge", port.Attrs().Name)
}
