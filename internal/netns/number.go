// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package netns

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	vishns "github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/internal/kernelevents"
)

// numbers are those that other namespaces have in the caller's. By its number a namespace can
// be looked into without a path to it.
type numbers struct {
	link *netlink.Handle
	// sockets has one in the caller's namespace.
	sockets map[int]*nl.SocketHandle
	// left are those that were not met with a path.
	left map[int]bool
}

// openNumbers lists the numbers. The kernel gives those of the namespaces to which veth
// interfaces lead when it lists these.
func openNumbers() (n *numbers, err error) {
	n = &numbers{left: map[int]bool{}}
	defer func() {
		if err != nil {
			n.close()
		}
	}()
	if n.link, err = netlink.NewHandle(unix.NETLINK_ROUTE); err != nil {
		return n, err
	}
	if n.sockets, err = strictSocket(vishns.None()); err != nil {
		return n, err
	}
	if _, err = Whole(n.link.LinkList); err != nil {
		return n, fmt.Errorf("list links: %w", err)
	}
	replies, err := Whole(func() ([][]byte, error) {
		return n.request(unix.RTM_GETNSID, nl.NewRtGenMsg()).Execute(unix.NETLINK_ROUTE, unix.RTM_NEWNSID)
	})
	for _, reply := range replies {
		const header = (unix.SizeofRtGenmsg + unix.NLA_ALIGNTO - 1) &^ (unix.NLA_ALIGNTO - 1)
		if number := kernelevents.AttributesOf(reply[header:])[netlink.NETNSA_NSID]; len(number) == 4 {
			n.left[int(int32(nl.NativeEndian().Uint32(number)))] = true
		}
	}
	if err != nil {
		return n, fmt.Errorf("list the numbers of network namespaces: %w", err)
	}
	own, err := current()
	if err != nil {
		return n, err
	}
	defer own.Close() //nolint:errcheck // only read
	number, err := n.link.GetNetNsIdByFd(int(own))
	delete(n.left, number) // the caller's namespace in itself
	return n, err
}

// strictSocket opens one in a namespace, none for the caller's. The kernel refuses what it does
// not know of a request, instead of answering another.
func strictSocket(at vishns.NsHandle) (map[int]*nl.SocketHandle, error) {
	socket, err := nl.GetNetlinkSocketAt(at, vishns.None(), unix.NETLINK_ROUTE)
	if err != nil {
		return nil, err
	}
	if err := unix.SetsockoptInt(socket.GetFd(), unix.SOL_NETLINK, unix.NETLINK_GET_STRICT_CHK, 1); err != nil {
		socket.Close()
		return nil, err
	}
	return map[int]*nl.SocketHandle{unix.NETLINK_ROUTE: {Socket: socket}}, nil
}

func closeSockets(sockets map[int]*nl.SocketHandle) {
	for _, s := range sockets {
		s.Close()
	}
}

func (n *numbers) close() {
	closeSockets(n.sockets)
	if n.link != nil {
		n.link.Close()
	}
}

func (n *numbers) request(kind int, data nl.NetlinkRequestData) *nl.NetlinkRequest {
	return dumpOf(n.sockets, kind, data)
}

func dumpOf(sockets map[int]*nl.SocketHandle, kind int, data nl.NetlinkRequestData) *nl.NetlinkRequest {
	request := nl.NewNetlinkRequest(kind, unix.NLM_F_DUMP)
	request.Sockets = sockets
	request.AddData(data)
	return request
}

// look returns the namespace at a path with its addresses, if it has the inode.
func (n *numbers) look(path string, inode uint64) (*Place, error) {
	handle, err := refer(path)
	if errors.Is(err, ErrMissing) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer handle.Close() //nolint:errcheck // only read
	var stat unix.Stat_t
	if err := unix.Fstat(int(handle), &stat); err != nil || stat.Ino != inode {
		return nil, err
	}
	place := &Place{Path: path, Inode: inode}
	number, err := n.link.GetNetNsIdByFd(int(handle))
	if err == nil && number >= 0 {
		delete(n.left, number)
		place.Addresses, err = n.addressesAt(number)
	} else if err == nil {
		place.Addresses, err = addressesIn(handle)
	}
	if err != nil {
		return nil, fmt.Errorf("list the addresses in network namespace %s: %w", path, err)
	}
	return place, nil
}

// dying is how long a namespace to which nothing leads may have its number. The kernel removes one a moment
// after its last user has gone.
const dying = 3 * time.Second

// rest returns the namespaces that were not met with a path, and that do not end soon.
func (n *numbers) rest() (places []Place, err error) {
	for since := time.Now(); len(n.left) > 0 && time.Since(since) < dying; time.Sleep(10 * time.Millisecond) {
		maps.DeleteFunc(n.left, func(number int, _ bool) bool {
			_, failed := n.addressesAt(number)
			return errors.Is(failed, unix.EINVAL)
		})
	}
	for number := range n.left {
		name := fmt.Sprintf("the network namespace with number %d", number)
		addresses, failed := n.addressesAt(number)
		if errors.Is(failed, unix.EINVAL) { // it has ended
			continue
		}
		if failed != nil {
			err = errors.Join(err, fmt.Errorf("list the addresses in %s: %w", name, failed))
		}
		places = append(places, Place{Path: name, Addresses: addresses})
	}
	return places, err
}

func (n *numbers) addressesAt(number int) ([]netip.Addr, error) {
	value := make([]byte, 4)
	nl.NativeEndian().PutUint32(value, uint32(number))
	return dumpAddresses(n.sockets, nl.NewRtAttr(unix.IFA_TARGET_NETNSID, value))
}

func addressesIn(handle vishns.NsHandle) ([]netip.Addr, error) {
	sockets, err := strictSocket(handle)
	if err != nil {
		return nil, err
	}
	defer closeSockets(sockets)
	return dumpAddresses(sockets)
}

func dumpAddresses(sockets map[int]*nl.SocketHandle, attributes ...*nl.RtAttr) ([]netip.Addr, error) {
	replies, err := Whole(func() ([][]byte, error) {
		request := dumpOf(sockets, unix.RTM_GETADDR, nl.NewIfAddrmsg(unix.AF_UNSPEC))
		for _, a := range attributes {
			request.AddData(a)
		}
		return request.Execute(unix.NETLINK_ROUTE, unix.RTM_NEWADDR)
	})
	var list []netip.Addr
	for _, reply := range replies {
		// IFA_ADDRESS is the peer's where there is one.
		attributes := kernelevents.AttributesOf(reply[unix.SizeofIfAddrmsg:])
		value, ok := attributes[unix.IFA_LOCAL]
		if !ok {
			value = attributes[unix.IFA_ADDRESS]
		}
		address, ok := netip.AddrFromSlice(value)
		if ok && !address.IsLoopback() && !address.IsLinkLocalUnicast() {
			list = append(list, address.Unmap())
		}
	}
	return list, err
}
