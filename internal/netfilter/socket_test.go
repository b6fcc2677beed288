// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package netfilter

import (
	"context"
	"encoding/binary"
	"errors"
	"os"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"
)

// TestInterruptedListing: what changes have interrupted is not the whole, whether the kernel says so with an object, which may be in an
// earlier part, or with the end alone, as if the last object was removed.
func TestInterruptedListing(t *testing.T) {
	message := func(kind, flags uint16, data ...byte) syscall.NetlinkMessage {
		return syscall.NetlinkMessage{Header: syscall.NlMsghdr{Type: kind, Flags: flags}, Data: data}
	}
	object, end := message(unix.NFNL_SUBSYS_NFTABLES<<8, 0, 7), message(unix.NLMSG_DONE, 0)
	failed := message(unix.NLMSG_ERROR, 0, binary.NativeEndian.AppendUint32(nil, uint32(0xffffffff))...) // -EPERM
	interrupted := message(object.Header.Type, unix.NLM_F_DUMP_INTR, 7)
	for name, test := range map[string]struct {
		parts [][]syscall.NetlinkMessage
		want  error
		count int
	}{
		"whole":         {[][]syscall.NetlinkMessage{{object, object}, {object}, {end}}, nil, 3},
		"by an object":  {[][]syscall.NetlinkMessage{{interrupted}, {object}, {end}}, errChanged, 2},
		"by the end":    {[][]syscall.NetlinkMessage{{object, message(unix.NLMSG_DONE, unix.NLM_F_DUMP_INTR)}}, errChanged, 1},
		"with an error": {[][]syscall.NetlinkMessage{{object, failed}}, unix.EPERM, 1},
	} {
		t.Run(name, func(t *testing.T) {
			count, done, err := 0, false, error(nil)
			l := listing{visitor: func([]byte) bool { count++; return true }}
			for i, part := range test.parts {
				if done, err = l.take(part); done != (i == len(test.parts)-1) {
					t.Errorf("after part %d: done is %t", i, done)
				}
			}
			if !errors.Is(err, test.want) || count != test.count {
				t.Errorf("%d objects, %v", count, err)
			}
		})
	}
	l := listing{visitor: func([]byte) bool { return false }}
	if done, err := l.take([]syscall.NetlinkMessage{object}); !done || err != nil {
		t.Errorf("a visitor that wants no more: %t, %v", done, err)
	}
}

// TestLateListing: a listing ends with the deadline, and is not taken for that of a kernel without rules.
func TestLateListing(t *testing.T) {
	ctx, stop := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
	defer stop()
	if chains, err := FilledChains(ctx, IPv4); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("chains %v, %v", chains, err)
	}
	for _, search := range []RuleSearch{{Family: IPv4, Table: "nat", Chain: "own"}, {Family: IPv4, Table: "nat", Chain: "own", Comment: func(string) bool { return true }}} {
		if found, err := SearchRules(ctx, []RuleSearch{search, search}); !errors.Is(err, os.ErrDeadlineExceeded) || len(found) != 2 {
			t.Errorf("%s: %v, %v", search, found, err)
		}
	}
}

// TestUnsupported: a kernel without nftables has no rules, and another error is one.
func TestUnsupported(t *testing.T) {
	for _, err := range []error{nil, unix.EINVAL, unix.EOPNOTSUPP, unix.ENOENT} {
		if got := ignoreUnsupported(err); got != nil {
			t.Errorf("%v: %v", err, got)
		}
	}
	for _, err := range []error{unix.EPERM, errChanged} {
		if got := ignoreUnsupported(err); !errors.Is(got, err) || !strings.Contains(got.Error(), "failed to list rules of nftables: ") {
			t.Errorf("%v: %v", err, got)
		}
	}
}

// TestInterruptedAgain: a listing is repeated as long as changes interrupt it, but not for ever, and not after another error.
func TestInterruptedAgain(t *testing.T) {
	for name, test := range map[string]struct {
		interrupted, calls int
		last, want         error
	}{
		"whole":                {0, 1, nil, nil},
		"interrupted":          {3, 4, nil, nil},
		"a failure":            {0, 1, unix.EPERM, unix.EPERM},
		"a failure after some": {3, 4, unix.EPERM, unix.EPERM},
		"without nftables":     {0, 1, unix.EOPNOTSUPP, nil},
		"changed all the time": {1000, listAttempts, nil, errChanged},
	} {
		calls := 0
		err := whole(func() error {
			if calls++; calls <= test.interrupted {
				return errChanged
			}
			return test.last
		})
		if !errors.Is(err, test.want) || calls != test.calls {
			t.Errorf("%s: %d calls, %v", name, calls, err)
		}
	}
}

// TestUnsent: a batch that cannot be sent is an error, and an answer that does not come ends with the deadline.
func TestUnsent(t *testing.T) {
	ctx, stop := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer stop()
	s, err := Dial(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if messages, err := s.receivePart(make([]byte, receiveBuffer)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("without a request: %v, %v", messages, err)
	}
	b := &Batch{}
	b.addRule(testTable, testTable.Chains[0].Rules[0])
	if err := errors.Join(s.Conn.Close(), s.send(b)); err == nil || !strings.Contains(err.Error(), "failed to send rules to nftables: ") {
		t.Errorf("with a closed socket: %v", err)
	}
}

// TestClose: who closes a connection does not wait for what the kernel destroys before it ends one.
func TestClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := Dial(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		isOpen := func() bool {
			raw, err := s.SyscallConn()
			return err == nil && raw.Control(func(uintptr) {}) == nil
		}
		s.Close()
		if !isOpen() {
			t.Error("it is closed at once")
		}
		time.Sleep(2 * destroying)
		if isOpen() {
			t.Error("it stays open")
		}
	})
}
