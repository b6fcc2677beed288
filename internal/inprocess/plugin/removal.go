// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package plugin

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/containernetworking/plugins/pkg/ns"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/internal/inprocess/links"
	"github.com/allocnet/allocnet/internal/inprocess/within"
	"github.com/allocnet/allocnet/internal/netns"
)

// link is a link to remove, in the namespace at a path.
type link struct{ netns, name string }

// HostNamespace stands for the namespace of this process instead of a path.
const HostNamespace = ""

// RemoveLink leaves a link to be removed.
func (c *Changes) RemoveLink(netns, name string) { c.links = append(c.links, link{netns, name}) }

// ownedLink is a link to remove for the chain with an index.
type ownedLink struct {
	name  string
	owner int
}

// removeLinks removes the links of all chains, and reports the errors of each in errs. Those of one namespace are one request: the
// kernel waits once for each request, whatever the number of links.
func removeLinks(ctx context.Context, all []*Changes, errs []error) {
	byNamespace := map[string][]ownedLink{}
	for i, c := range all {
		for _, l := range c.links {
			byNamespace[l.netns] = append(byNamespace[l.netns], ownedLink{l.name, i})
		}
	}
	for netns, links := range byNamespace {
		if err := removeFrom(ctx, netns, links, errs); err != nil {
			for _, l := range links {
				errs[l.owner] = err
			}
		}
	}
}

// removeFrom removes links of a namespace. One that is gone is no error, nor is a namespace
// that is gone. The error is that of all links; those of single ones are reported in errs.
func removeFrom(ctx context.Context, netns string, links []ownedLink, errs []error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if netns == HostNamespace {
		removeHere(ctx, links, errs)
		return nil
	}
	return unlessGone(within.Path(netns, func(ns.NetNS) error { removeHere(ctx, links, errs); return nil }))
}

// removeHere removes links of this namespace: together, or one by one if that fails. The kernel
// removes no link of a group with one that it refuses to remove, such as lo with another name.
func removeHere(ctx context.Context, links []ownedLink, errs []error) {
	if len(links) > 1 && removeTogether(links) == nil {
		return
	}
	for _, l := range links {
		err := context.Cause(ctx)
		if err == nil {
			err = removeOne(l.name)
		}
		errs[l.owner] = errors.Join(errs[l.owner], err)
	}
}

func removeOne(name string) error {
	found, err := links.Existing([]string{name})
	if err != nil || len(found) == 0 {
		return err
	}
	if err := ignoreMissing(netlink.LinkDel(found[0])); err != nil {
		return fmt.Errorf("failed to delete %q: %w", name, err)
	}
	return nil
}

func removeTogether(owned []ownedLink) error {
	var names []string
	for _, l := range owned {
		names = append(names, l.name)
	}
	found, err := links.Existing(names)
	switch {
	case err != nil || len(found) == 0:
		return err
	case len(found) == 1:
		return ignoreMissing(netlink.LinkDel(found[0]))
	}
	return removeGroup(found, int(rand.Int32N(1<<31-2)+1))
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
	all, err := netns.Whole(netlink.LinkList)
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
