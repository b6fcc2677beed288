// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/allocnet/allocnet/internal/errdefs"
)

// ErrRefused is that a server refuses an address to the client, which must not use it any more.
var ErrRefused = errdefs.New(errdefs.Unavailable, "the server refuses the address")

// SilenceError is that no server has given an answer that can be used.
type SilenceError struct {
	// Protocol is what servers speak. Default: DHCP.
	Protocol string
	// Asked is what for.
	Asked string
	// Heard are the answers that could not be used.
	Heard []string
}

func (e *SilenceError) Error() string {
	heard := "nothing was heard"
	if len(e.Heard) > 0 {
		heard = "heard: " + strings.Join(e.Heard, "; ")
	}
	return fmt.Sprintf("no %s server %s; %s", cmp.Or(e.Protocol, "DHCP"), e.Asked, heard)
}

// Kind is that of package errdefs.
func (*SilenceError) Kind() errdefs.Kind { return errdefs.Unavailable }

// maxHeard is how many answers are told, and maxText the length of what is told of one: others write it.
const (
	maxHeard = 4
	maxText  = 300
)

func (e *SilenceError) note(from netip.Addr, err error) {
	text := fmt.Sprintf("%s: %.*v", from, maxText, err)
	if len(e.Heard) < maxHeard && !slices.Contains(e.Heard, text) {
		e.Heard = append(e.Heard, text)
	}
}

// request is a message that is sent until it is answered.
type request struct {
	protocol string
	// packet has the message, as it is after a time, and goes to a link-layer address.
	packet func(elapsed time.Duration) []byte
	hop    net.HardwareAddr
	// decode returns the message of a packet that may be an answer, and where it is from.
	decode func(packet []byte) (message []byte, from netip.Addr, ok bool)
	// take tells whether a message is the answer. The error is why an answer to this request cannot be used.
	take   func(message []byte, from netip.Addr, hop net.HardwareAddr) (bool, error)
	pauses []time.Duration
	asked  string
	// guard is that of Identity.
	guard func(send func() error) error
}

// final is an error of an answer that ends an exchange.
type final struct{ error }

// exchange sends a message, and again after each pause, until an answer is taken.
func exchange(ctx context.Context, l link, r request) error {
	silence := &SilenceError{Protocol: r.protocol, Asked: r.asked}
	began := time.Now()
	for _, pause := range r.pauses {
		if ctx.Err() != nil {
			break
		}
		if err := r.guarded(func() error { return l.Send(r.packet(time.Since(began)), r.hop) }); err != nil {
			return fmt.Errorf("send a message of %s: %w", r.protocol, err)
		}
		deadline := time.Now().Add(pause)
		if end, ok := ctx.Deadline(); ok && end.Before(deadline) {
			deadline = end
		}
		done, err := r.await(ctx, l, deadline, silence)
		if done || err != nil {
			return err
		}
	}
	if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, context.DeadlineExceeded) {
		return cause
	}
	return silence
}

func (r request) guarded(send func() error) error {
	if r.guard == nil {
		return send()
	}
	return r.guard(send)
}

// await receives answers until one is taken, or the deadline.
func (r request) await(ctx context.Context, l link, deadline time.Time, silence *SilenceError) (done bool, err error) {
	for ctx.Err() == nil {
		p, hop, err := l.Receive(deadline)
		var timeout net.Error
		if errors.As(err, &timeout) && timeout.Timeout() {
			return false, nil
		}
		if err != nil {
			return false, fmt.Errorf("receive answers: %w", err)
		}
		message, from, ok := r.decode(p)
		if !ok {
			continue
		}
		taken, err := r.takeSafely(message, from, hop)
		if end, ok := errors.AsType[*final](err); ok {
			return true, end.error
		}
		if taken {
			return true, nil
		}
		if err != nil {
			silence.note(from, err)
		}
	}
	return false, nil
}

// takeSafely has a panic of the library be a message that cannot be read.
func (r request) takeSafely(message []byte, from netip.Addr, hop net.HardwareAddr) (taken bool, err error) {
	defer func() {
		if reason := recover(); reason != nil {
			taken, err = false, fmt.Errorf("a message that cannot be read: %v", reason)
		}
	}()
	return r.take(message, from, hop)
}
