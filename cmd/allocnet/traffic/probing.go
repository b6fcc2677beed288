// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package traffic

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"time"

	"golang.org/x/net/dns/dnsmessage"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/internal/echo"
	"github.com/allocnet/allocnet/internal/netns"
)

const (
	// probeLimit is how long one probe waits.
	probeLimit = 3 * time.Second
	// mostProbed is how many wait at a time, each with a thread.
	mostProbed = 32
)

// openNamespace opens that of an allocation, as Engine.OpenNamespace.
type openNamespace func(id string) (path string, closeNamespace func() error, err error)

func probeAll(ctx context.Context, probes []*probe, open openNamespace) {
	var group errgroup.Group
	group.SetLimit(mostProbed)
	for _, p := range probes {
		if p.Outcome != "" {
			continue
		}
		group.Go(func() error {
			limited, stop := context.WithTimeout(ctx, probeLimit)
			defer stop()
			p.conclude(p.carryOut(limited, open))
			return nil
		})
	}
	_ = group.Wait() // each probe has its own error
}

// conclude takes what a probe has found. What works needs no next thing.
func (r *probe) conclude(detail string, err error) {
	r.Outcome, r.Detail = works, detail
	if err != nil {
		r.Outcome, r.Detail = failed, err.Error()
		return
	}
	r.Next = ""
}

// carryOut returns what there is to tell of a probe that works.
func (r *probe) carryOut(ctx context.Context, open openNamespace) (detail string, err error) {
	path, closeNamespace, err := open(r.Allocation)
	if err != nil {
		return "", err
	}
	defer closeNamespace() //nolint:errcheck // only entered
	ns, err := netns.Open(path)
	if err != nil {
		return "", err
	}
	defer ns.Close() //nolint:errcheck // only entered
	if r.connect != nil {
		return "", r.reach(ctx, ns)
	}
	started := time.Now()
	err = ns.Do(func() error {
		if r.echo != nil {
			_, err := echo.Ping(ctx, *r.echo)
			return r.explain(err)
		}
		return ask(ctx, r.dns)
	})
	return time.Since(started).Round(time.Microsecond).String(), err
}

// explain says what an error means for a packet of full size.
func (r *probe) explain(err error) error {
	if r.echo.Size == 0 || err == nil {
		return err
	}
	if errors.Is(err, unix.EMSGSIZE) {
		return fmt.Errorf("the interface cannot send %d bytes: %w", r.echo.Size, err)
	}
	return fmt.Errorf("a packet of %d bytes, which may not be taken apart: %w", r.echo.Size, err)
}

// reach connects to a published port from this host. If that fails, it looks whether anything listens in the allocation.
func (r *probe) reach(ctx context.Context, ns *netns.Namespace) error {
	err := connect(ctx, r.connect.host)
	if err == nil {
		return nil
	}
	inside := ns.Do(func() error {
		ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), probeLimit)
		defer stop()
		return connect(ctx, r.connect.inside)
	})
	if inside != nil {
		r.Next = fmt.Sprintf("allocnet exec %s -- ss -ltn", r.Allocation)
		return fmt.Errorf("nothing listens on %s: %w", r.connect.inside, inside)
	}
	r.Next = fmt.Sprintf("allocnet check %s, then allocnet doctor", r.Allocation)
	return fmt.Errorf("%s listens, and this host does not reach it by %s: %w", r.connect.inside, r.connect.host, err)
}

func connect(ctx context.Context, to netip.AddrPort) error {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", to.String())
	if err != nil {
		if op, ok := errors.AsType[*net.OpError](err); ok {
			return op.Err // the addresses are known
		}
		return err
	}
	return conn.Close()
}

// ask asks a name server for that of the root. Any answer shows that it is reached.
func ask(ctx context.Context, server netip.Addr) error {
	conn, err := (&net.Dialer{}).DialContext(ctx, "udp", netip.AddrPortFrom(server, 53).String())
	if err != nil {
		return err
	}
	defer conn.Close()                                                               //nolint:errcheck // nothing is left to write
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) }) // ends what waits
	defer stop()
	question := dnsmessage.Message{
		Header:    dnsmessage.Header{ID: uint16(rand.Uint32N(1 << 16)), RecursionDesired: true},
		Questions: []dnsmessage.Question{{Name: dnsmessage.MustNewName("."), Type: dnsmessage.TypeNS, Class: dnsmessage.ClassINET}},
	}
	packet, err := question.Pack()
	if err == nil {
		_, err = conn.Write(packet)
	}
	for answer := make([]byte, 1500); err == nil; {
		var n int
		if n, err = conn.Read(answer); err != nil {
			break
		}
		var parser dnsmessage.Parser
		if header, err := parser.Start(answer[:n]); err == nil && header.Response && header.ID == question.ID {
			return nil
		}
	}
	if ctx.Err() != nil {
		return echo.ErrSilent
	}
	if op, ok := errors.AsType[*net.OpError](err); ok {
		return op.Err
	}
	return err
}
