// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package netns

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Device is a device of the host that the host-device plugin has moved into a namespace.
type Device struct {
	// Name is that on the host. Empty: the alias of the interface says it, where the plugin keeps it.
	Name string
	// Interface is its name in the namespace, which a task may have changed.
	Interface string
	// MAC tells it from others. Empty: it is unknown.
	MAC string
	// Index and Kind are those that the kernel says in the namespace: a task makes no device, and changes neither. Zero: they are unknown.
	Index int
	Kind  string
	// Restore gives it back the settings that plugins have changed, in the network namespace that it is in. Nil: there are none.
	Restore func(netlink.Link)
}

// ReturnDevice moves a device from the namespace to the caller's, down and under the name that it had there.
// A device that is not in the namespace is no error. While the caller's has another link of the name it
// stays, and the error says so.
func (n *Namespace) ReturnDevice(d Device) error {
	links, err := Whole(n.link.LinkList)
	if err != nil {
		return fmt.Errorf("list interfaces of %s: %w", n.path, err)
	}
	link := d.find(links)
	if link == nil {
		return nil
	}
	attrs := link.Attrs()
	name := cmp.Or(d.Name, attrs.Alias, attrs.Name)
	restore := func() { _ = n.Do(func() error { d.restore(link); return nil }) } // it goes back all the same
	if err := returnAs(n.link, link, name, restore); err != nil {
		return fmt.Errorf("device %s of the host is interface %s in %s, and cannot go back: %w", name, attrs.Name, n.path, err)
	}
	return nil
}

// find returns the device among the links of the namespace, or nil. The index and the alias outlast what tasks rename; a
// MAC alone proves nothing, as a VLAN on the device has it, too. An interface of another kind is never the device.
func (d Device) find(links []netlink.Link) netlink.Link {
	for _, is := range []func(a *netlink.LinkAttrs, kind string) bool{
		func(a *netlink.LinkAttrs, _ string) bool { return a.Index == d.Index && d.Kind != "" },
		func(a *netlink.LinkAttrs, _ string) bool {
			return a.Alias != "" && a.Alias == d.Name && d.has(a.HardwareAddr.String())
		},
		func(a *netlink.LinkAttrs, _ string) bool { return a.Alias != "" && a.Alias == d.Name },
		func(a *netlink.LinkAttrs, _ string) bool {
			return a.Name == d.Interface && (a.Alias != "" && d.Name == "" || d.has(a.HardwareAddr.String()))
		},
		func(a *netlink.LinkAttrs, kind string) bool {
			return kind == "device" && (a.Name == d.Interface || d.has(a.HardwareAddr.String())) && a.Name != "lo"
		},
	} {
		i := slices.IndexFunc(links, func(link netlink.Link) bool {
			return (d.Kind == "" || d.Kind == link.Type()) && is(link.Attrs(), link.Type())
		})
		if i >= 0 {
			return links[i]
		}
	}
	return nil
}

func (d Device) has(mac string) bool { return SameMAC(d.MAC, mac) }

func (d Device) restore(link netlink.Link) {
	if d.Restore != nil {
		d.Restore(link)
	}
}

// returnAs renames a link of the namespace, which is down and restored then, and moves it to the caller's. On failure it keeps its name.
func returnAs(h *netlink.Handle, link netlink.Link, name string, restore func()) error {
	if found, err := HasLinkNamed(name); err != nil || found {
		return cmp.Or(err, fmt.Errorf("the host has another link %s: rename that one, and repeat this", name))
	}
	host, err := current()
	if err != nil {
		return err
	}
	defer host.Close() //nolint:errcheck // read only
	if err := h.LinkSetDown(link); err != nil {
		return err
	}
	restore()
	former := link.Attrs().Name
	err = h.LinkSetName(link, name)
	if errors.Is(err, unix.EEXIST) { // a task has made one of the name: it gets its own on the host
		return returnThenRename(h, link, name, int(host))
	}
	if err == nil {
		err = h.LinkSetNsFd(link, int(host))
	}
	if err != nil {
		return errors.Join(err, h.LinkSetName(link, former))
	}
	return clearAlias(name)
}

// returnThenRename moves a link by a name that nothing has. RestoreDevice goes on after a kill.
func returnThenRename(h *netlink.Handle, link netlink.Link, name string, host int) error {
	passing := passingName(link.Attrs().Index)
	if err := h.LinkSetName(link, passing); err != nil {
		return err
	}
	if err := h.LinkSetNsFd(link, host); err != nil {
		return err
	}
	moved, err := netlink.LinkByName(passing)
	if err != nil {
		return err
	}
	if err := netlink.LinkSetName(moved, name); err != nil {
		return err
	}
	return clearAlias(name)
}

func passingName(index int) string { return fmt.Sprintf("allocnet%d", index) }

// clearAlias removes what the plugin has left on the host's link.
func clearAlias(name string) error {
	link, err := netlink.LinkByName(name)
	if err != nil {
		return err
	}
	return netlink.LinkSetAlias(link, "")
}

// RestoreDevice gives a device its name that the kernel, when its namespace ended, has moved to the host's
// under another one. It is known by its alias and its MAC, or the name by which it was moved; one that is not there is no error. Its
// settings, which may have another MAC, come after its name, and its alias goes last: a kill leaves what is known again.
func RestoreDevice(d Device) error {
	if d.Name == "" || d.MAC == "" {
		return nil
	}
	links, err := Whole(netlink.LinkList)
	if err != nil {
		return fmt.Errorf("list links: %w", err)
	}
	for _, link := range links {
		attrs := link.Attrs()
		if attrs.Alias != d.Name || !d.has(attrs.HardwareAddr.String()) && (d.Index == 0 || attrs.Name != passingName(d.Index)) {
			continue
		}
		if attrs.Name != d.Name {
			err = errors.Join(netlink.LinkSetDown(link), netlink.LinkSetName(link, d.Name))
		}
		if err == nil {
			d.restore(link)
			err = netlink.LinkSetAlias(link, "")
		}
		if err != nil {
			return fmt.Errorf("device %s of the host is named %s: rename it: %w", d.Name, attrs.Name, err)
		}
	}
	return nil
}
