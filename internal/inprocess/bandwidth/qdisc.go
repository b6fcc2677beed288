// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package bandwidth

import (
	"fmt"
	"slices"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/internal/inprocess/remedy"
	"github.com/allocnet/allocnet/internal/netns"
)

// maxLatency is how long a packet may wait, in microseconds.
const maxLatency = 25000

// qdisc returns a token bucket filter (tc-tbf(8)) for a link.
func (l limit) qdisc(link int) *netlink.Tbf {
	rate, burst := l.rate/8, uint32(l.burst/8)
	second := float64(netlink.TIME_UNITS_PER_SEC)
	ticks := float64(uint32(float64(burst)*second/float64(rate))) * netlink.TickInUsec()
	return &netlink.Tbf{
		QdiscAttrs: netlink.QdiscAttrs{LinkIndex: link, Handle: netlink.MakeHandle(1, 0), Parent: netlink.HANDLE_ROOT},
		Rate:       rate,
		Limit:      uint32(float64(rate)*maxLatency/second) + burst,
		Buffer:     uint32(ticks),
	}
}

func (l limit) apply(link int) error {
	if err := netlink.QdiscAdd(l.qdisc(link)); err != nil {
		return fmt.Errorf("create qdisc: %w", err)
	}
	return nil
}

// repair limits what a link sends, if it is not limited so.
func (l limit) repair(r *remedy.Repair, link netlink.Link) error {
	qdiscs, err := qdiscsOf(link)
	if err != nil {
		return err
	}
	want := l.qdisc(link.Attrs().Index)
	for _, qdisc := range qdiscs {
		got, isLimit := qdisc.(*netlink.Tbf)
		if isLimit && got.Rate == want.Rate && got.Limit == want.Limit && got.Buffer == want.Buffer {
			return nil
		}
	}
	return r.Ensure("limit of "+link.Attrs().Name, func() error { return netlink.QdiscReplace(want) })
}

// redirects tells whether the packets that a link gets are sent by another one.
func redirects(from, to netlink.Link) (bool, error) {
	filters, err := netns.Whole(func() ([]netlink.Filter, error) { return netlink.FilterList(from, netlink.MakeHandle(0xffff, 0)) })
	if err != nil {
		return false, err
	}
	return slices.ContainsFunc(filters, func(filter netlink.Filter) bool {
		u32, ok := filter.(*netlink.U32)
		return ok && slices.ContainsFunc(u32.Actions, func(action netlink.Action) bool {
			mirred, ok := action.(*netlink.MirredAction)
			return ok && mirred.Ifindex == to.Attrs().Index
		})
	}), nil
}

// dropIngress removes what is done with the packets that a link gets.
func dropIngress(link netlink.Link) error {
	qdiscs, err := qdiscsOf(link)
	if err != nil {
		return err
	}
	for _, qdisc := range qdiscs {
		if _, isIngress := qdisc.(*netlink.Ingress); isIngress {
			return netlink.QdiscDel(qdisc)
		}
	}
	return nil
}

// redirect has all packets that a link gets sent by another link.
func redirect(from, to int) error {
	ingress := &netlink.Ingress{QdiscAttrs: netlink.QdiscAttrs{LinkIndex: from, Handle: netlink.MakeHandle(0xffff, 0), Parent: netlink.HANDLE_INGRESS}}
	if err := netlink.QdiscAdd(ingress); err != nil {
		return fmt.Errorf("create ingress qdisc: %w", err)
	}
	filter := &netlink.U32{
		FilterAttrs: netlink.FilterAttrs{LinkIndex: from, Parent: ingress.Handle, Priority: 1, Protocol: unix.ETH_P_ALL},
		ClassId:     netlink.MakeHandle(1, 1),
		RedirIndex:  to,
		Actions:     []netlink.Action{&netlink.MirredAction{MirredAction: netlink.TCA_EGRESS_REDIR, Ifindex: to}},
	}
	if err := netlink.FilterAdd(filter); err != nil {
		return fmt.Errorf("add filter: %w", err)
	}
	return nil
}

func qdiscsOf(link netlink.Link) ([]netlink.Qdisc, error) {
	return netns.Whole(func() ([]netlink.Qdisc, error) { return netlink.QdiscList(link) })
}
