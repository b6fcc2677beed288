// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package agent

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
)

// listener bounds the connections. It accepts up to twice the limit, to answer the
// excess with an error; the rest waits in the kernel's queue.
type listener struct {
	net.Listener
	limit  int64
	served atomic.Int64
	slots  chan struct{}
	closed chan struct{}
	once   sync.Once
}

func limitListener(l net.Listener, limit int) *listener {
	return &listener{Listener: l, limit: int64(limit), slots: make(chan struct{}, 2*limit), closed: make(chan struct{})}
}

func (l *listener) Accept() (net.Conn, error) {
	select {
	case l.slots <- struct{}{}:
	case <-l.closed:
		return nil, net.ErrClosed
	}
	accepted, err := l.Listener.Accept()
	if err != nil {
		<-l.slots
		return nil, err
	}
	c := &conn{Conn: accepted, listener: l, tooMany: l.served.Add(1) > l.limit}
	c.peer, c.unknown = peerOf(accepted)
	return c, nil
}

func (l *listener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return l.Listener.Close()
}

// conn is an accepted connection with the identity of its peer.
type conn struct {
	net.Conn
	listener *listener
	tooMany  bool
	peer     peer
	unknown  error // why the peer is unknown
	once     sync.Once
}

func (c *conn) Close() error {
	c.once.Do(func() {
		c.listener.served.Add(-1)
		<-c.listener.slots
	})
	return c.Conn.Close()
}

// checkLimit refuses a connection above the limit.
func (c *conn) checkLimit() error {
	if c.tooMany {
		return tryAgainLater(fmt.Sprintf("%d connections are open, which is the limit", c.listener.limit))
	}
	return nil
}

// admit refuses a connection of a user without access.
func (c *conn) admit(a Access) error {
	if c.unknown != nil {
		return forbidden(fmt.Sprintf("the user of the caller is unknown: %v", c.unknown))
	}
	if !a.allows(c.peer) {
		return forbidden(fmt.Sprintf("user %d has no access", c.peer.uid))
	}
	return nil
}

type connKey struct{}

func withConn(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, c)
}

func connOf(ctx context.Context) (*conn, error) {
	c, ok := ctx.Value(connKey{}).(*conn)
	if !ok {
		return nil, errors.New("the request did not arrive on a connection of the agent")
	}
	return c, nil
}
