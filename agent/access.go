// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package agent

import (
	"cmp"
	"fmt"
	"net"
	"net/http"
	"os/user"
	"slices"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/agent/api"
)

// Access lists the users of the socket besides root and the agent's own user. The
// zero value adds none.
type Access struct {
	// Owner is a user ID, which also owns the socket. 0: root.
	Owner uint32
	// Group is a group ID whose members get access. 0: no group.
	Group uint32
}

// peer is the process at the other end of a connection, at the time it connected.
type peer struct{ uid, gid uint32 }

// peerOf asks the kernel (unix(7), SO_PEERCRED).
func peerOf(c net.Conn) (peer, error) {
	socket, ok := c.(syscall.Conn)
	if !ok {
		return peer{}, fmt.Errorf("a connection of type %T has no credentials", c)
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return peer{}, err
	}
	var credentials *unix.Ucred
	var failed error
	err = raw.Control(func(fd uintptr) {
		credentials, failed = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	})
	if err != nil || failed != nil {
		return peer{}, fmt.Errorf("peer credentials: %w", cmp.Or(err, failed))
	}
	return peer{credentials.Uid, credentials.Gid}, nil
}

// allows checks the peer, because systemd can pass a socket with any mode.
func (a Access) allows(p peer) bool {
	if p.uid == 0 || p.uid == uint32(unix.Geteuid()) || p.uid == a.Owner {
		return true
	}
	return a.Group != 0 && (p.gid == a.Group || isMember(p.uid, a.Group))
}

func isMember(uid, gid uint32) bool {
	u, err := user.LookupId(strconv.Itoa(int(uid)))
	if err != nil {
		return false
	}
	groups, err := u.GroupIds()
	return err == nil && slices.Contains(groups, strconv.Itoa(int(gid)))
}

func forbidden(reason string) error {
	return &api.Error{Code: api.CodeForbidden, Msg: "forbidden", Details: reason, Status: http.StatusForbidden}
}
