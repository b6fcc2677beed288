// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package inprocess

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/containernetworking/plugins/pkg/netlinksafe"
	"github.com/containernetworking/plugins/pkg/ns"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// link is a link to remove, in the namespace at a path.
type link struct{ netns, name string }

// hostNamespace stands for the namespace of this process instead of a path.
const hostNamespace = ""

// removeLink leaves a link to be removed.
func (c *Changes) removeLink(netns, name string) { c.links = append(c.links, link{netns, name}) }

// removeLinks removes the links of all chains, and reports the errors of each in errs. Those of one namespace are one request: the
// kernel waits once for each request, whatever the number of links.
func removeLinks(ctx context.Context, all []*Changes, errs []error) {
	byNamespace := map[string][]int{}
	for i, c := range all {
		for _, l := range c.links {
			byNamespace[l.netns] = append(byNamespace[l.netns], i)
		}
	}
	for netns, owners := range byNamespace {
		if ctx.Err() != nil {
			for _, i := range owners {
				errs[i] = context.Cause(ctx)
			}
			continue
		}
		var names []string
		for _, i := range owners {
			for _, l := range all[i].links {
				if l.netns == netns {
					names = append(names, l.name)
				}
			}
		}
		if err := removeFrom(netns, names); err != nil {
			for _, i := range owners {
				errs[i] = err
			}
		}
	}
}

// removeFrom removes links of a namespace. One that is gone is no error, nor is a namespace
// that is gone.
func removeFrom(netns string, names []string) error {
	if netns == hostNamespace {
		return removeHere(names)
	}
	err := withinPath(netns, func(ns.NetNS) error { return removeHere(names) })
	var gone ns.NSPathNotExistErr
	if errors.As(err, &gone) {
		return nil
	}
	return err
}

// removeHere removes links of this namespace.
func removeHere(names []string) error {
	found, err := existing(names)
	switch {
	case err != nil || len(found) == 0:
		return err
	case len(found) == 1:
		return ignoreMissing(netlink.LinkDel(found[0]))
	}
	return removeGroup(found, int(rand.Int32N(1<<31-2)+1))
}

// existing returns the links of this namespace that have one of the names.
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
		found = append(found, link)
	}
	return found, nil
}

func ignoreMissing(err error) error {
	if errors.Is(err, unix.ENODEV) {
		return nil
	}
	return err
}

// removeGroup removes links with one request, as a group of links that holds no other.
func removeGroup(links []netlink.Link, group int) error {
	for _, link := range links {
		if err := ignoreMissing(netlink.LinkSetGroup(link, group)); err != nil {
			return fmt.Errorf("failed to put %q into a group: %w", link.Attrs().Name, err)
		}
	}
	if err := refuseOthers(group, links); err != nil {
		return err
	}
	request := nl.NewNetlinkRequest(unix.RTM_DELLINK, unix.NLM_F_ACK)
	request.AddData(nl.NewIfInfomsg(unix.AF_UNSPEC))
	request.AddData(nl.NewRtAttr(unix.IFLA_GROUP, nl.Uint32Attr(uint32(group))))
	_, err := request.Execute(unix.NETLINK_ROUTE, 0)
	if err = ignoreMissing(err); err != nil {
		return fmt.Errorf("failed to delete %d links: %w", len(links), err)
	}
	return nil
}

// refuseOthers fails if the group holds a link that is none of those to be removed.
func refuseOthers(group int, links []netlink.Link) error {
	ours := map[int]bool{}
	for _, link := range links {
		ours[link.Attrs().Index] = true
	}
	all, err := netlinksafe.LinkList()
	if err != nil {
		return err
	}
	for _, link := range all {
		if int(link.Attrs().Group) == group && !ours[link.Attrs().Index] {
			return fmt.Errorf("link %q is in the group of links that are to be removed", link.Attrs().Name)
		}
	}
	return nil
}
