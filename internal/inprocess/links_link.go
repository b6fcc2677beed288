// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package inprocess

import (
	"errors"
	"fmt"
	"net"
	"strings"

	current "github.com/containernetworking/cni/pkg/types/100"
	"github.com/containernetworking/plugins/pkg/netlinksafe"
	"github.com/vishvananda/netlink"
)

// existing returns the links of this namespace that have one of the names. The kernel also finds those that have it
// as an alternative name: they are others.
func existing(names []string) ([]netlink.Link, error) {
	var found []netlink.Link
	for _, name := range names {
		link, err := netlinksafe.LinkByName(name)
		var missing netlink.LinkNotFoundError
		if errors.As(err, &missing) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if link.Attrs().Name == name {
			found = append(found, link)
		}
	}
	return found, nil
}

// findLink returns a link of this namespace; nil if there is none of that name.
func findLink(name string) (netlink.Link, error) {
	found, err := existing([]string{name})
	if err != nil || len(found) == 0 {
		return nil, err
	}
	return found[0], nil
}

func setUp(name string) error {
	link, err := netlinksafe.LinkByName(name)
	if err != nil {
		return fmt.Errorf("failed to retrieve link: %w", err)
	}
	if err := netlink.LinkSetUp(link); err != nil {
		return fmt.Errorf("failed to set %q up: %w", name, err)
	}
	return nil
}

// linkName returns the name of a link of this namespace, or its index if it is gone.
func linkName(index int) string {
	link, err := netlink.LinkByIndex(index)
	if err != nil {
		return fmt.Sprintf("interface %d", index)
	}
	return link.Attrs().Name
}

func setMAC(link netlink.Link, text string) error {
	mac, err := net.ParseMAC(text)
	if err != nil {
		return fmt.Errorf("invalid args %v for MAC addr: %w", text, err)
	}
	return netlink.LinkSetHardwareAddr(link, mac)
}

// interfaceOf returns a link as results have it; one of the host has no sandbox.
func interfaceOf(link netlink.Link, sandbox string) *current.Interface {
	attrs := link.Attrs()
	return &current.Interface{Name: attrs.Name, Mac: attrs.HardwareAddr.String(), Sandbox: sandbox}
}

func compareMAC(link netlink.Link, recorded *current.Interface) error {
	mac := link.Attrs().HardwareAddr.String()
	if recorded.Mac != "" && !strings.EqualFold(recorded.Mac, mac) {
		return fmt.Errorf("interface %s has MAC %s, was set up with %s", recorded.Name, mac, recorded.Mac)
	}
	return nil
}

// maxNameLength is the length of the longest name of a link.
const maxNameLength = 15
