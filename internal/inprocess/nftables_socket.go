// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package inprocess

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"syscall"

	"github.com/google/nftables"
	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// nftablesSocket is a connection to nftables of this network namespace.
type nftablesSocket struct {
	*netlink.Conn

	// deadline context of the connection.
	ctx context.Context
}

// receiveBuffer is larger than what the kernel gives in one part of a listing: 32 KiB.
const receiveBuffer = 64 << 10

func dialNFTables(ctx context.Context) (*nftablesSocket, error) {
	s := &nftablesSocket{ctx: ctx}
	if err := s.dial(); err != nil {
		return nil, err
	}
	return s, nil
}

func (s *nftablesSocket) dial() error {
	conn, err := netlink.Dial(unix.NETLINK_NETFILTER, &netlink.Config{MessageBufferSize: receiveBuffer})
	if err != nil {
		return fmt.Errorf("failed to connect to nftables: %w", err)
	}
	s.Conn = conn
	if deadline, ok := s.ctx.Deadline(); ok {
		return conn.SetDeadline(deadline)
	}
	return nil
}

// sendBuffer is what the kernel accepts in one request unless it is asked for more.
const sendBuffer = 128 << 10

// send executes a batch; an empty one is not sent.
func (s *nftablesSocket) send(b *nftablesBatch) error {
	if b.err != nil || len(b.messages) == 0 {
		return b.err
	}
	begin := batchMessage(unix.NFNL_MSG_BATCH_BEGIN)
	if b.generation != 0 {
		data, err := netlink.MarshalAttributes([]netlink.Attribute{number(unix.NFNL_BATCH_GENID, b.generation)})
		if err != nil {
			return err
		}
		begin.Data = append(begin.Data, data...)
	}
	return s.execute(append(append([]netlink.Message{begin}, b.messages...), batchMessage(unix.NFNL_MSG_BATCH_END)), len(b.messages))
}

// accepts tells whether the kernel could make a table with its rules. It discards a batch that does not end.
func (s *nftablesSocket) accepts(t *nftablesTable) bool {
	b := &nftablesBatch{}
	b.addTable(t)
	for i := range t.chains {
		b.addChain(t, &t.chains[i])
		for _, rule := range t.chains[i].rules {
			b.addRule(t, rule)
		}
	}
	return b.err == nil && s.execute(append([]netlink.Message{batchMessage(unix.NFNL_MSG_BATCH_BEGIN)}, b.messages...), len(b.messages)) == nil
}

// execute sends the messages of a batch, and awaits the answer to the last that changes something.
func (s *nftablesSocket) execute(messages []netlink.Message, last int) error {
	size := 0
	for _, m := range messages {
		size += unix.NLMSG_HDRLEN + len(m.Data)
	}
	if size > sendBuffer {
		if err := s.SetWriteBuffer(2 * size); err != nil {
			return err
		}
	}
	// One answer is enough: the kernel reports an error in any message, and the success of
	// the last one after that of the batch.
	messages[last].Header.Flags |= netlink.Acknowledge
	if _, err := s.SendMessages(messages); err != nil {
		return fmt.Errorf("failed to send rules to nftables: %w", err)
	}
	if _, err := s.Receive(); err != nil {
		return errors.Join(fmt.Errorf("failed to change nftables: %w", err), s.redial())
	}
	return nil
}

// redial replaces the connection, which may have more answers to a batch that has failed.
func (s *nftablesSocket) redial() error { return errors.Join(s.Close(), s.dial()) }

func batchMessage(kind netlink.HeaderType) netlink.Message {
	return netlink.Message{
		Header: netlink.Header{Type: kind, Flags: netlink.Request},
		Data:   []byte{unix.AF_UNSPEC, unix.NFNETLINK_V0, 0, unix.NFNL_SUBSYS_NFTABLES},
	}
}

// listAttempts is how often a listing begins again because the rules have changed meanwhile.
const listAttempts = 100

// errChanged is why a listing begins again: the kernel goes on by position, so it may have left
// rules out.
var errChanged = errors.New("the rules change all the time")

// list returns the rules of a chain, none if there is no such chain.
func (s *nftablesSocket) list(t *nftablesTable, chain string) ([]listedRule, error) {
	for range listAttempts {
		var rules []listedRule
		err := s.visit(t, chain, func(rule listedRule) bool { rules = append(rules, rule); return true })
		if !errors.Is(err, errChanged) {
			return rules, ignoreUnsupported(err)
		}
	}
	return nil, ignoreUnsupported(errChanged)
}

// hasRule tells whether it is certain that a chain has a rule. It stops at the first one, on
// a connection of its own: what is shared is at the beginning of long chains.
func (s *nftablesSocket) hasRule(t *nftablesTable, chain string, wanted func(listedRule) bool) bool {
	own, err := dialNFTables(s.ctx)
	if err != nil {
		return false
	}
	defer own.Close() //nolint:errcheck // read only
	found := false
	_ = own.visit(t, chain, func(rule listedRule) bool { found = wanted(rule); return !found }) // uncertain is false
	return found
}

// visit calls a function for each rule of a chain until it returns false. After that the
// connection has to be closed.
func (s *nftablesSocket) visit(t *nftablesTable, chain string, visitor func(listedRule) bool) error {
	data, err := netlink.MarshalAttributes([]netlink.Attribute{
		text(unix.NFTA_RULE_TABLE, t.name),
		text(unix.NFTA_RULE_CHAIN, chain),
	})
	if err != nil {
		return err
	}
	if _, err := s.Send(nftablesMessage(unix.NFT_MSG_GETRULE, netlink.Dump, t.family, data)); err != nil {
		return err
	}
	buffer := make([]byte, receiveBuffer)
	var changed error
	for {
		part, err := s.receivePart(buffer)
		if err != nil {
			return err
		}
		for _, message := range part {
			if message.Header.Flags&unix.NLM_F_DUMP_INTR != 0 {
				changed = errChanged
			}
			switch {
			case message.Header.Type == unix.NLMSG_ERROR && len(message.Data) >= 4:
				return unix.Errno(-int32(binary.NativeEndian.Uint32(message.Data)))
			case message.Header.Type <= unix.NLMSG_DONE:
				return changed
			case !visitor(newListedRule(message.Data)):
				return nil
			}
		}
	}
}

// receivePart receives one part of a listing. Package netlink receives the whole, and does not
// tell whether it is consistent.
func (s *nftablesSocket) receivePart(buffer []byte) ([]syscall.NetlinkMessage, error) {
	raw, err := s.SyscallConn()
	if err != nil {
		return nil, err
	}
	var n int
	var failed error
	err = raw.Read(func(fd uintptr) bool {
		n, _, failed = unix.Recvfrom(int(fd), buffer, 0)
		return !errors.Is(failed, unix.EAGAIN)
	})
	if err = errors.Join(err, failed); err != nil {
		return nil, err
	}
	return syscall.ParseNetlinkMessage(bytes.Clone(buffer[:n]))
}

// generation returns the number of the last change of nftables.
func (s *nftablesSocket) generation() (uint32, error) {
	replies, err := s.Execute(nftablesMessage(unix.NFT_MSG_GETGEN, 0, nftables.TableFamilyUnspecified, nil))
	if err != nil {
		return 0, err
	}
	for _, reply := range replies {
		for kind, value := range attributes(reply.Data[min(nfgenmsgSize, len(reply.Data)):]) {
			if kind == unix.NFTA_GEN_ID && len(value) == 4 {
				return binary.BigEndian.Uint32(value), nil
			}
		}
	}
	return 0, errors.New("nftables reports no generation")
}

// ignoreUnsupported returns nil if the kernel has no nftables, and therefore no rules.
func ignoreUnsupported(err error) error {
	if err == nil || errors.Is(err, unix.EINVAL) || errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.ENOENT) {
		return nil
	}
	return fmt.Errorf("failed to list rules of nftables: %w", err)
}

// hasChain tells whether a table has a chain.
func (s *nftablesSocket) hasChain(t *nftablesTable, chain string) (bool, error) {
	data, err := netlink.MarshalAttributes([]netlink.Attribute{
		text(unix.NFTA_CHAIN_TABLE, t.name),
		text(unix.NFTA_CHAIN_NAME, chain),
	})
	if err != nil {
		return false, err
	}
	_, err = s.Execute(nftablesMessage(unix.NFT_MSG_GETCHAIN, 0, t.family, data))
	return err == nil, ignoreUnsupported(err)
}
