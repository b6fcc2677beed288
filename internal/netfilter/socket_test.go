// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package netfilter

import (
	"encoding/binary"
	"errors"
	"syscall"
	"testing"

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
