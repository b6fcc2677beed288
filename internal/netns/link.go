// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package netns

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"regexp"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// LinkGroup is the group of links that allocnet makes on the host with names that tell nothing of that. They have it from
// the beginning, so a rule of udev marks them for network managers (dist/udev). It is "allo" in ASCII: operators number
// groups from 1.
const LinkGroup = 0x616c6c6f

// SetLoopbackUp sets lo up. It is safe to repeat.
func (n *Namespace) SetLoopbackUp() error {
	loopback := &netlink.GenericLink{LinkAttrs: netlink.LinkAttrs{Name: "lo"}}
	if err := n.link.LinkSetUp(loopback); err != nil {
		return fmt.Errorf("set lo up in %s: %w", n.path, err)
	}
	return nil
}

// RemoveInterface removes an interface of the namespace; a physical device is moved back to the
// caller's namespace instead. A missing interface is not an error.
func (n *Namespace) RemoveInterface(name string) error {
	link, err := n.link.LinkByName(name)
	if missingLink(err) || err == nil && link.Attrs().Name != name { // one with that alternative name is another one
		return nil
	}
	if err != nil {
		return fmt.Errorf("find %s in %s: %w", name, n.path, err)
	}
	if link.Type() == "device" {
		return n.ReturnDevice(Device{Interface: name})
	}
	if err := n.link.LinkDel(link); err != nil && !missingLink(err) {
		return fmt.Errorf("remove %s from %s: %w", name, n.path, err)
	}
	return nil
}

// linkNamed returns the link of the caller's namespace that has a name, also as an alternative one; nil if there is none.
func linkNamed(name string) (netlink.Link, error) {
	link, err := netlink.LinkByName(name)
	if missingLink(err) {
		return nil, nil // there is none
	}
	if err != nil {
		return nil, fmt.Errorf("get link %s: %w", name, err)
	}
	return link, nil
}

// HasLinkNamed tells whether the caller's namespace has a link of the name.
func HasLinkNamed(name string) (bool, error) {
	link, err := linkNamed(name)
	return link != nil, err
}

// FindLink returns the name that a link of the caller's namespace has now, which is of the given kind and, unless
// mac is empty, has that MAC; empty if there is none. The name on record is the first guess. An operator may have changed
// it, and then the only link of that kind with the MAC is the one, if it had the name that CNI plugins give: a bridge may have
// the MAC of a neighbour's pair, and some programs give many links the same.
func FindLink(name, kind, mac string) (string, error) {
	link, err := findLink(name, kind, mac)
	if err != nil || link != nil {
		return name, err
	}
	if mac == "" || !IsPluginVeth(name) && !pluginIFB.MatchString(name) {
		return "", nil
	}
	links, err := Whole(netlink.LinkList)
	if err != nil {
		return "", fmt.Errorf("list links: %w", err)
	}
	return onlyLink(links, kind, mac), nil
}

// CNI plugins give such names to the host's end of a veth pair, and to the device of bandwidth.
var pluginVeth, pluginIFB = regexp.MustCompile(`^veth[0-9a-f]{8}$`), regexp.MustCompile(`^bwp[0-9a-f]{12}$`)

// IsPluginVeth tells whether CNI plugins give such a name to the host's end of a veth pair.
func IsPluginVeth(name string) bool { return pluginVeth.MatchString(name) }

func onlyLink(links []netlink.Link, kind, mac string) string {
	found := ""
	for _, link := range links {
		if link.Type() != kind || !strings.EqualFold(link.Attrs().HardwareAddr.String(), mac) {
			continue
		}
		if found != "" {
			return ""
		}
		found = link.Attrs().Name
	}
	return found
}

// findLink returns nil if there is no such link.
func findLink(name, kind, mac string) (netlink.Link, error) {
	link, err := linkNamed(name)
	if link == nil || link.Attrs().Name != name || link.Type() != kind || mac != "" && !strings.EqualFold(link.Attrs().HardwareAddr.String(), mac) {
		return nil, err // nil for another one
	}
	return link, nil
}

// RemoveLink removes a link of the caller's namespace that has that name, kind and MAC. A missing or different
// link is not an error.
func RemoveLink(name, kind, mac string) error {
	link, err := findLink(name, kind, mac)
	if err != nil || link == nil {
		return err
	}
	if err := netlink.LinkDel(link); err != nil && !missingLink(err) {
		return fmt.Errorf("remove %s: %w", name, err)
	}
	return nil
}

// Links returns the names of the links of a kind in the caller's namespace.
func Links(kind string) ([]string, error) {
	links, err := Whole(netlink.LinkList)
	if err != nil {
		return nil, fmt.Errorf("list links: %w", err)
	}
	var names []string
	for _, link := range links {
		if link.Type() == kind {
			names = append(names, link.Attrs().Name)
		}
	}
	return names, nil
}

// missingLink is a link that does not exist, or was removed after it was found.
func missingLink(err error) bool {
	var missing netlink.LinkNotFoundError
	return errors.As(err, &missing) || errors.Is(err, unix.ENODEV)
}

// SameMAC tells whether two texts are one MAC, which has several forms: a result has that of the configuration.
func SameMAC(a, b string) bool {
	first, err := net.ParseMAC(a)
	second, failed := net.ParseMAC(b)
	return err == nil && failed == nil && bytes.Equal(first, second)
}

// FollowsMaster tells whether links of a kind have the MAC of their master, also after that has got another one.
func FollowsMaster(kind string) bool { return kind == "ipvlan" || kind == "vlan" }
