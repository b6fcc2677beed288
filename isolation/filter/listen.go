// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package filter

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/internal/netfilter"
	"github.com/allocnet/allocnet/isolation"
)

// logGroup is that of NFLOG in which the kernel tells of dropped packets, with a prefix that ends with the reason. Of each it has the first
// toldBytes, which have all headers that are read.
const (
	logGroup  = 0xa110
	logPrefix = name + " "
	toldBytes = 128
)

// told is the rule that tells of what is dropped for a reason, so rarely that it costs nothing; none if the kernel cannot.
func told(reason isolation.Reason) []netfilter.Rule {
	if !tells() {
		return nil
	}
	return []netfilter.Rule{rule("told", telling(reason))}
}

func telling(reason isolation.Reason) match {
	return match{
		&expr.Limit{Type: expr.LimitTypePkts, Rate: 10, Unit: expr.LimitTimeSecond, Burst: 20},
		&expr.Log{Key: 1<<unix.NFTA_LOG_GROUP | 1<<unix.NFTA_LOG_PREFIX | 1<<unix.NFTA_LOG_SNAPLEN, Group: logGroup, Snaplen: toldBytes, Data: []byte(logPrefix + string(reason))},
	}
}

// tells is whether the kernel can tell of packets: it may lack the modules. Where that is unknown it is as with most kernels, since each process
// has to find the same form of the tables.
var tells = sync.OnceValue(func() bool {
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	err := netfilter.Briefly(ctx, func(s *netfilter.Socket) (err error) { // perhaps of the namespace of an allocation
		isTold := func(r netfilter.ListedRule) bool { return r.Comment() == "told" }
		if rules, err := s.List(inetTable, forged); err == nil && slices.ContainsFunc(rules, isTold) {
			return nil // after a try the kernel waits for packets in flight, twelve milliseconds and more for each
		}
		for _, f := range families {
			hook := &netfilter.Hook{Number: nftables.ChainHookForward, Priority: before, Filters: true}
			rules := []netfilter.Rule{{Chain: "c", Exprs: telling(isolation.Forged)}}
			err = errors.Join(err, s.Try(&netfilter.Table{Family: f, Name: name + "-probe", Chains: []netfilter.Chain{{Name: "c", Hook: hook, Rules: rules}}}))
		}
		return err
	})
	return !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.EOPNOTSUPP)
})

// Listen calls listening once it hears of packets that are dropped, and tell for them, until the context ends: of each reason for some, if there are
// many. Of a network namespace one process can listen. Where none does, or the kernel does not tell of packets, nothing else changes.
func Listen(ctx context.Context, listening func(), tell func(isolation.DeniedFlow)) error {
	links, err := netlink.NewHandle(unix.NETLINK_ROUTE)
	if err != nil {
		return fmt.Errorf("isolation: listen to denied packets: %w", err)
	}
	defer links.Close()
	log, err := netfilter.OpenLog(logGroup, toldBytes)
	if errors.Is(err, unix.EBUSY) || errors.Is(err, unix.EPERM) {
		return fmt.Errorf("isolation: listen to denied packets: another process does, or this one is not root: %w", err)
	}
	if err != nil {
		return fmt.Errorf("isolation: listen to denied packets: %w", err)
	}
	defer log.Close() //nolint:errcheck // read only
	listening()
	return log.Receive(ctx, func(l netfilter.Logged) {
		if f, ok := flowOf(&l); ok {
			in := l.In
			if f.Reason == isolation.Forged && l.PhysicalIn != 0 { // the port of the bridge
				in = l.PhysicalIn
			}
			f.FromLink, f.ToLink = linkName(links, in), linkName(links, l.Out)
			tell(f)
		}
	})
}

// flowOf reads what the kernel tells of a packet; ok is false if it is of another one's rule.
func flowOf(l *netfilter.Logged) (f isolation.DeniedFlow, ok bool) {
	reason, ok := strings.CutPrefix(l.Prefix, logPrefix)
	if !ok {
		return f, false
	}
	f.Reason, f.Time = isolation.Reason(reason), l.Time
	readPacket(&f, l.EtherType, l.Packet)
	return f, true
}

// linkName returns the name of an interface by its number; empty: none, or one that is gone by now.
func linkName(links *netlink.Handle, index uint32) string {
	if index == 0 {
		return ""
	}
	link, err := links.LinkByIndex(int(index))
	if err != nil {
		return ""
	}
	return link.Attrs().Name
}
