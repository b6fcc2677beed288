// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package netfilter

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"syscall"
	"time"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// Socket is a connection to nftables of this network namespace.
type Socket struct {
	*netlink.Conn

	// deadline context of the connection.
	ctx context.Context
	// unanswered is whether the answer to a batch was lost, also if its caller then handles the parts of it by themselves.
	unanswered bool
}

// receiveBuffer is larger than what the kernel gives in one part of a listing: 32 KiB.
const receiveBuffer = 64 << 10

// buffers are those that listings receive into: an attach makes a dozen of these.
var buffers = sync.Pool{New: func() any { return new([receiveBuffer]byte) }}

// Dial connects to nftables of the caller's network namespace, until the deadline of ctx.
func Dial(ctx context.Context) (*Socket, error) {
	s := &Socket{ctx: ctx}
	if err := s.dial(); err != nil {
		return nil, err
	}
	return s, nil
}

func (s *Socket) dial() error {
	conn, err := netlink.Dial(unix.NETLINK_NETFILTER, &netlink.Config{MessageBufferSize: receiveBuffer})
	if err != nil {
		return fmt.Errorf("failed to connect to nftables: %w", err)
	}
	s.Conn = conn
	s.enlarge()
	if deadline, ok := s.ctx.Deadline(); ok {
		return conn.SetDeadline(deadline)
	}
	return nil
}

// destroying is longer than the kernel waits for packets in flight before it destroys what a batch has deleted.
const destroying = 200 * time.Millisecond

// Close closes the connection in a while, and waits for nothing: who closes one before that is destroyed which a batch has deleted, of this connection or another
// one, waits for packets in flight, and all other changes of nftables wait, too. The network namespace stays until then.
func (s *Socket) Close() {
	conn := s.Conn
	time.AfterFunc(destroying, func() { _ = conn.Close() })
}

// Briefly connects to nftables of the caller's network namespace during a call alone. A connection that outlived it would keep a namespace, with its interfaces,
// that is gone otherwise, and that a detach does not find.
func Briefly(ctx context.Context, do func(*Socket) error) error {
	s, err := Dial(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = s.Conn.Close() }()
	return do(s)
}

// answerBuffer is what the kernel gives a socket by default: the echoes of a batch fit, and the answer to it.
const answerBuffer = 212992

// enlarge gives the connection that much where net.core.rmem_default is less. What does not fit is lost, which is noticed.
func (s *Socket) enlarge() {
	raw, err := s.SyscallConn()
	if err != nil {
		return
	}
	_ = raw.Control(func(fd uintptr) { // a socket that was just made is open
		if size, err := unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUF); err == nil && size < answerBuffer {
			_ = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, answerBuffer/2) // the kernel doubles it
		}
	})
}

// sendBuffer is what the kernel accepts in one request unless it is asked for more.
const sendBuffer = 128 << 10

// send executes a batch; an empty one is not sent.
func (s *Socket) send(b *Batch) error {
	if b.err != nil || len(b.messages) == 0 {
		return b.err
	}
	begin := batchMessage(unix.NFNL_MSG_BATCH_BEGIN)
	if b.isGuarded && b.generation != 0 {
		data, err := netlink.MarshalAttributes([]netlink.Attribute{number(unix.NFNL_BATCH_GENID, b.generation)})
		if err != nil {
			return err
		}
		begin.Data = append(begin.Data, data...)
	}
	echoed, err := s.execute(append(append([]netlink.Message{begin}, b.messages...), batchMessage(unix.NFNL_MSG_BATCH_END)), len(b.messages))
	if err == nil && len(echoed) == len(b.echoes) {
		for i, made := range b.echoes {
			made(echoed[i].Handle)
		}
	}
	return err
}

// Try tells whether the kernel could make a table with its rules; else the error is why not. It discards a batch that does not end.
func (s *Socket) Try(t *Table) error {
	b := &Batch{}
	b.newTable(t)
	if b.err != nil {
		return b.err
	}
	_, err := s.execute(append([]netlink.Message{batchMessage(unix.NFNL_MSG_BATCH_BEGIN)}, b.messages...), len(b.messages))
	return err
}

// execute sends the messages of a batch, and awaits the answer to the last that changes something. It returns the rules that the
// kernel echoes before.
func (s *Socket) execute(messages []netlink.Message, last int) (echoed []ListedRule, err error) {
	size := 0
	for _, m := range messages {
		size += unix.NLMSG_HDRLEN + len(m.Data)
	}
	if size > sendBuffer {
		if err := s.SetWriteBuffer(2 * size); err != nil {
			return nil, err
		}
	}
	// One answer is enough: the kernel reports an error in any message, and the success of
	// the last one after that of the batch.
	messages[last].Header.Flags |= netlink.Acknowledge
	if _, err := s.SendMessages(messages); err != nil {
		return nil, fmt.Errorf("failed to send rules to nftables: %w", err)
	}
	for {
		answers, err := s.Receive()
		if err != nil {
			// The old connection may have more answers to the batch.
			s.Close()
			return nil, errors.Join(fmt.Errorf("failed to change nftables: %w", err), s.dial())
		}
		for _, answer := range answers {
			if answer.Header.Type == netlink.Error { // with the code of success
				return echoed, nil
			}
			if answer.Header.Type == netlink.HeaderType(unix.NFNL_SUBSYS_NFTABLES<<8|unix.NFT_MSG_NEWRULE) { // and not the generation
				echoed = append(echoed, newListedRule(answer.Data))
			}
		}
	}
}

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

// whole is undisturbed for rules. A kernel without nftables has nothing to list.
func whole(list func() error) error { return ignoreUnsupported(undisturbed(list)) }

// undisturbed repeats a listing that changes have interrupted.
func undisturbed(list func() error) error {
	err := errChanged
	for attempt := 0; errors.Is(err, errChanged) && attempt < listAttempts; attempt++ {
		err = list()
	}
	return err
}

// List returns the rules of a chain, none if there is no such chain.
func (s *Socket) List(t *Table, chain string) (rules []ListedRule, err error) {
	err = whole(func() error {
		rules = nil
		return s.visit(t, chain, func(rule ListedRule) bool { rules = append(rules, rule); return true })
	})
	return rules, err
}

// rule returns a rule of a chain by its handle. The kernel looks for it without listing the others.
func (s *Socket) rule(t *Table, chain string, handle uint64) (rule ListedRule, ok bool) {
	data, err := netlink.MarshalAttributes(t.chain(chain, handleOf(handle)))
	if err != nil {
		return ListedRule{}, false
	}
	answers, err := s.Execute(message(unix.NFT_MSG_GETRULE, 0, t.Family, data))
	if err != nil || len(answers) != 1 {
		return ListedRule{}, false
	}
	return newListedRule(answers[0].Data), true
}

// HasRule tells whether it is certain that a chain has a rule. It stops at the first one, on
// a connection of its own: what is shared is at the beginning of long chains.
func (s *Socket) HasRule(t *Table, chain string, wanted func(ListedRule) bool) bool {
	own, err := Dial(s.ctx)
	if err != nil {
		return false
	}
	defer own.Close()
	found := false
	_ = own.visit(t, chain, func(rule ListedRule) bool { found = wanted(rule); return !found }) // uncertain is false
	return found
}

// visit calls a function for each rule of a chain until it returns false. After that the
// connection has to be closed.
func (s *Socket) visit(t *Table, chain string, visitor func(ListedRule) bool) error {
	data, err := netlink.MarshalAttributes(t.chain(chain))
	if err != nil {
		return err
	}
	return s.receive(message(unix.NFT_MSG_GETRULE, netlink.Dump, t.Family, data), func(payload []byte) bool { return visitor(newListedRule(payload)) })
}

// receive sends the request for a listing, and calls a function for each message of it until it returns false.
func (s *Socket) receive(request netlink.Message, visitor func(payload []byte) bool) error {
	if _, err := s.Send(request); err != nil {
		return err
	}
	buffer, l := buffers.Get().(*[receiveBuffer]byte), listing{visitor: visitor}
	defer buffers.Put(buffer)
	for {
		part, err := s.receivePart(buffer[:])
		if err != nil {
			return err
		}
		if done, err := l.take(part); done || err != nil {
			return err
		}
	}
}

type listing struct {
	visitor func(payload []byte) bool
	// changed is whether the kernel has said so far that it may not be the whole.
	changed bool
}

// take takes a part of the listing, and tells whether that is all. The kernel may say with the last message, which ends the listing,
// that something was changed before.
func (l *listing) take(part []syscall.NetlinkMessage) (done bool, err error) {
	for _, message := range part {
		l.changed = l.changed || message.Header.Flags&unix.NLM_F_DUMP_INTR != 0
		switch {
		case message.Header.Type == unix.NLMSG_ERROR && len(message.Data) >= 4:
			return true, unix.Errno(-int32(binary.NativeEndian.Uint32(message.Data)))
		case message.Header.Type <= unix.NLMSG_DONE && l.changed:
			return true, errChanged
		case message.Header.Type <= unix.NLMSG_DONE || !l.visitor(message.Data):
			return true, nil
		}
	}
	return false, nil
}

// receivePart receives one part of a listing. Package netlink receives the whole, and does not
// tell whether it is consistent.
func (s *Socket) receivePart(buffer []byte) ([]syscall.NetlinkMessage, error) {
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

// HasNFTables tells whether the kernel has nftables. No program is needed for that.
func HasNFTables(ctx context.Context) bool {
	s, err := Dial(ctx)
	if err != nil {
		return false
	}
	defer s.Close()
	_, err = s.Generation()
	return err == nil
}

// Generation returns the number of the last change of nftables.
func (s *Socket) Generation() (uint32, error) {
	replies, err := s.Execute(message(unix.NFT_MSG_GETGEN, 0, "", nil))
	if err != nil {
		return 0, err
	}
	for _, reply := range replies {
		if number := numberOf(reply.Data[min(nfgenmsgSize, len(reply.Data)):], unix.NFTA_GEN_ID); number != 0 {
			return number, nil
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

// HasChain tells whether a table has a chain.
func (s *Socket) HasChain(t *Table, chain string) (bool, error) {
	_, ok, err := s.FindChain(t, chain)
	return ok, err
}

// IsDormant tells whether a table is there and has the flag dormant: its rules see no packet.
func (s *Socket) IsDormant(t *Table) (bool, error) {
	data, err := netlink.MarshalAttributes([]netlink.Attribute{text(unix.NFTA_TABLE_NAME, t.Name)})
	if err != nil {
		return false, err
	}
	answers, err := s.Execute(message(unix.NFT_MSG_GETTABLE, 0, t.Family, data))
	if err != nil || len(answers) == 0 {
		return false, ignoreUnsupported(err)
	}
	found := answers[0].Data[min(nfgenmsgSize, len(answers[0].Data)):]
	return numberOf(found, unix.NFTA_TABLE_FLAGS)&unix.NFT_TABLE_F_DORMANT != 0, nil
}

// ListedChain is a chain as the kernel lists it.
type ListedChain struct {
	// Handle is less than those of all that its table has got since.
	Handle uint64
	// Uses counts the rules of the chain and those that lead to it.
	Uses int
}

// FindChain returns a chain of a table; ok is false if there is none.
func (s *Socket) FindChain(t *Table, chain string) (c ListedChain, ok bool, err error) {
	found, err := s.chain(t, chain)
	if found == nil {
		return ListedChain{}, false, err
	}
	if handle := valueOf(found, unix.NFTA_CHAIN_HANDLE); len(handle) == 8 {
		c.Handle = binary.BigEndian.Uint64(handle)
	}
	c.Uses = int(numberOf(found, unix.NFTA_CHAIN_USE))
	return c, true, nil
}

// chain returns the attributes of a chain; nil if there is none.
func (s *Socket) chain(t *Table, name string) ([]byte, error) {
	data, err := netlink.MarshalAttributes([]netlink.Attribute{text(unix.NFTA_CHAIN_TABLE, t.Name), text(unix.NFTA_CHAIN_NAME, name)})
	if err != nil {
		return nil, err
	}
	answers, err := s.Execute(message(unix.NFT_MSG_GETCHAIN, 0, t.Family, data))
	if err != nil || len(answers) == 0 {
		return nil, ignoreUnsupported(err)
	}
	return answers[0].Data[min(nfgenmsgSize, len(answers[0].Data)):], nil
}
