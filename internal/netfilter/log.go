// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package netfilter

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// Messages and attributes of <linux/netfilter/nfnetlink_log.h>.
const (
	logPacket, logConfig = 0, 1

	logCommand, logMode, logThreshold = 1, 2, 5
	bindGroup                         = 1
	copyPacket                        = 2

	logHeader, logTime, logIn, logOut, logPhysicalIn, logPayload, logPrefix = 1, 3, 4, 5, 6, 9, 10
)

// Logged is a packet of which a rule with a group of NFLOG tells.
type Logged struct {
	// Prefix is that of the rule.
	Prefix string
	Time   time.Time
	// In, Out and PhysicalIn are the numbers of interfaces; 0: none. On a bridge PhysicalIn is its port.
	In, Out, PhysicalIn uint32
	// EtherType is that of Packet, which begins with the header of the network.
	EtherType uint16
	Packet    []byte
}

// Log is a group of NFLOG, of which one process of a network namespace is told.
type Log struct{ conn *netlink.Conn }

// OpenLog begins to receive packets of a group, at most so many bytes of each. The error is EPERM or EBUSY if another process does.
func OpenLog(group uint16, most uint32) (*Log, error) {
	conn, err := netlink.Dial(unix.NETLINK_NETFILTER, nil)
	if err != nil {
		return nil, fmt.Errorf("failed to connect to NFLOG: %w", err)
	}
	data, err := netlink.MarshalAttributes([]netlink.Attribute{
		{Type: logCommand, Data: []byte{bindGroup}},
		{Type: logMode, Data: append(binary.BigEndian.AppendUint32(nil, most), copyPacket, 0)},
		number(logThreshold, 1), // each is sent at once
	})
	if err == nil {
		header := binary.BigEndian.AppendUint16([]byte{unix.AF_UNSPEC, unix.NFNETLINK_V0}, group)
		_, err = conn.Execute(netlink.Message{
			Header: netlink.Header{Type: unix.NFNL_SUBSYS_ULOG<<8 | logConfig, Flags: netlink.Request | netlink.Acknowledge}, Data: append(header, data...),
		})
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("failed to bind the group %d of NFLOG: %w", group, err), conn.Close())
	}
	return &Log{conn}, nil
}

// Close ends the reception.
func (l *Log) Close() error { return l.conn.Close() }

// Receive calls a function for each packet until the context ends, which is no error. Of more than the socket holds some are lost.
func (l *Log) Receive(ctx context.Context, tell func(Logged)) error {
	stop := context.AfterFunc(ctx, func() { _ = l.conn.SetReadDeadline(time.Unix(1, 0)) }) // it is open until this returns
	defer stop()
	for {
		messages, err := l.conn.Receive()
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, unix.ENOBUFS):
			continue
		case err != nil:
			return fmt.Errorf("failed to receive from NFLOG: %w", err)
		}
		for _, m := range messages {
			if m.Header.Type == unix.NFNL_SUBSYS_ULOG<<8|logPacket {
				tell(newLogged(m.Data))
			}
		}
	}
}

func newLogged(data []byte) Logged {
	data = data[min(nfgenmsgSize, len(data)):]
	l := Logged{
		Prefix: stringOf(data, logPrefix), Time: time.Now(), Packet: valueOf(data, logPayload),
		In: numberOf(data, logIn), Out: numberOf(data, logOut), PhysicalIn: numberOf(data, logPhysicalIn),
	}
	if header := valueOf(data, logHeader); len(header) >= 2 {
		l.EtherType = binary.BigEndian.Uint16(header)
	}
	if at := valueOf(data, logTime); len(at) == 16 {
		l.Time = time.Unix(int64(binary.BigEndian.Uint64(at)), int64(binary.BigEndian.Uint64(at[8:]))*int64(time.Microsecond))
	}
	return l
}
