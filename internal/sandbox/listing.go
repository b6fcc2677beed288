// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package sandbox

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"
	vishns "github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/internal/netns"
)

// Listing asks the kernel what a network namespace has. To start a program for each kind of object takes longer
// than most of what is tested.
type Listing struct {
	testing.TB
	handle  *netlink.Handle
	byIndex map[int]netlink.Link
}

// List opens the namespace of that name, or this one if the name is empty.
func List(t testing.TB, name string) *Listing {
	t.Helper()
	l := &Listing{TB: t, handle: &netlink.Handle{}, byIndex: map[int]netlink.Link{}}
	if name != "" {
		ns, err := vishns.GetFromName(name)
		if err != nil {
			t.Fatalf("the namespace %s: %v", name, err)
		}
		defer ns.Close() //nolint:errcheck // the test does not need it
		if l.handle, err = netlink.NewHandleAt(ns, unix.NETLINK_ROUTE); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(l.handle.Close)
	}
	for _, link := range dump(l, l.handle.LinkList) {
		l.byIndex[link.Attrs().Index] = link
	}
	return l
}

func dump[T any](t testing.TB, list func() ([]T, error)) []T {
	t.Helper()
	items, err := netns.Whole(list)
	if err != nil {
		t.Fatal(err)
	}
	return items
}

// name of a link; a link may go between two questions.
func (l *Listing) name(index int) string {
	if link, ok := l.byIndex[index]; ok {
		return link.Attrs().Name
	}
	return fmt.Sprint("index ", index)
}

// links lists interfaces without what the kernel makes up: indexes and MACs.
func (l *Listing) links() string {
	var lines []string
	for _, link := range l.byIndex {
		a := link.Attrs()
		master := ""
		if a.MasterIndex != 0 {
			master = l.name(a.MasterIndex)
		}
		lines = append(lines, fmt.Sprintf("%s %s mtu %d master %q", a.Name, link.Type(), a.MTU, master))
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// Addresses lists the addresses of IPv4, and the global ones of IPv6.
func (l *Listing) Addresses() string {
	var lines []string
	for _, a := range dump(l, func() ([]netlink.Addr, error) { return l.handle.AddrList(nil, unix.AF_UNSPEC) }) {
		if a.IP.To4() == nil && a.Scope != int(netlink.SCOPE_UNIVERSE) {
			continue
		}
		// Whether another host has the address is found out in time, if it is asked.
		flags := a.Flags &^ (unix.IFA_F_TENTATIVE | unix.IFA_F_NODAD)
		line := fmt.Sprintf("%s %s label %q scope %s flags %#x", l.name(a.LinkIndex), a.IPNet, a.Label, netlink.Scope(a.Scope), flags)
		if a.Peer != nil {
			line += " peer " + a.Peer.String()
		}
		if a.Broadcast != nil {
			line += " broadcast " + a.Broadcast.String()
		}
		if a.Flags&unix.IFA_F_PERMANENT == 0 {
			line += " for a time"
		}
		lines = append(lines, line)
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// Routes lists the routes of a table.
func (l *Listing) Routes(family, table int) string {
	var lines []string
	for _, r := range dump(l, func() ([]netlink.Route, error) {
		return l.handle.RouteListFiltered(family, &netlink.Route{Table: table}, netlink.RT_FILTER_TABLE)
	}) {
		// A bridge without ports notices in time that it is down.
		flags := r.Flags &^ unix.RTNH_F_LINKDOWN
		line := fmt.Sprintf("%s table %d metric %d type %d protocol %s scope %s mtu %d flags %#x",
			r.Dst, r.Table, r.Priority, r.Type, r.Protocol, r.Scope, r.MTU, flags)
		if r.Src != nil {
			line += " src " + r.Src.String()
		}
		hops := r.MultiPath
		if len(hops) == 0 {
			hops = []*netlink.NexthopInfo{{LinkIndex: r.LinkIndex, Gw: r.Gw}}
		}
		for _, hop := range hops {
			line += fmt.Sprintf(" via %s dev %s", hop.Gw, l.name(hop.LinkIndex))
		}
		lines = append(lines, line)
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// Rules lists the routing rules of a family.
func (l *Listing) Rules(family int) string {
	var lines []string
	for _, r := range dump(l, func() ([]netlink.Rule, error) { return l.handle.RuleList(family) }) {
		lines = append(lines, fmt.Sprintf("%s type %d tos %d mark %d iif %q oif %q inverted %t suppressed %d",
			r, r.Type, r.Tos, r.Mark, r.IifName, r.OifName, r.Invert, r.SuppressPrefixlen))
	}
	return strings.Join(lines, "\n")
}

func (l *Listing) queues() string {
	var lines []string
	for _, q := range dump(l, func() ([]netlink.Qdisc, error) { return l.handle.QdiscList(nil) }) {
		a := q.Attrs()
		line := fmt.Sprintf("%s %s handle %s parent %s", l.name(a.LinkIndex), q.Type(), netlink.HandleStr(a.Handle), netlink.HandleStr(a.Parent))
		if tbf, ok := q.(*netlink.Tbf); ok {
			line += fmt.Sprintf(" rate %d limit %d buffer %d", tbf.Rate, tbf.Limit, tbf.Buffer)
		}
		lines = append(lines, line)
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}
