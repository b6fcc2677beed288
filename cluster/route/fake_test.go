// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package route

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// fake is a kernel in memory. What it accepts, refuses and removes by itself is as the real one does.
type fake struct {
	snapshot
	// hops are the answers of lookup. Others are on the link of eth0.
	hops map[netip.Addr]hop
	// log has the changes that were made.
	log []change
	// left is how many changes are made before the process is killed. Negative: it is not.
	left int
	// refused are objects that the kernel does not accept.
	refused map[object]error
	// unguarded is the error of guards.
	unguarded error
	// ipv6Off is whether new interfaces have no IPv6.
	ipv6Off bool
	seen    func(event)
}

// killed is what do panics with.
type killed struct{}

func newFake() *fake {
	f := &fake{left: -1, hops: map[netip.Addr]hop{}, refused: map[object]error{}}
	f.links = []link{
		{device: device{name: "lo", mtu: 65536, up: true}, kind: "device", index: 1},
		{device: device{name: "eth0", mac: "02:00:00:00:00:01", mtu: 1500, up: true}, kind: "device", index: 2},
	}
	f.addresses = []address{
		{ip("127.0.0.1"), "lo", false}, {ip("192.0.2.1"), "eth0", true}, {ip("2001:db8::1"), "eth0", true}, {ip("fe80::1"), "eth0", false},
	}
	f.gateways = []netip.Addr{ip("192.0.2.254")}
	f.guards = map[string]string{}
	return f
}

func ip(text string) netip.Addr     { return netip.MustParseAddr(text) }
func cidr(text string) netip.Prefix { return netip.MustParsePrefix(text) }

func (f *fake) open() (session, error) { return f, nil }
func (f *fake) close()                 {}

func (f *fake) watch(ctx context.Context, seen func(event), ended func()) error {
	f.seen = seen
	context.AfterFunc(ctx, ended)
	return nil
}

func (f *fake) list(name string) (*snapshot, error) {
	s := f.snapshot
	s.links, s.addresses, s.routes = slices.Clone(s.links), slices.Clone(s.addresses), slices.Clone(s.routes)
	s.guards = maps.Clone(s.guards)
	s.neighbours = slices.DeleteFunc(slices.Clone(s.neighbours), func(n neighbour) bool { return n.device != name })
	s.forwards = slices.DeleteFunc(slices.Clone(s.forwards), func(e forward) bool { return e.device != name })
	return &s, nil
}

func (f *fake) lookup(a netip.Addr) (hop, error) {
	if h, ok := f.hops[a]; ok {
		return h, nil
	}
	return hop{device: "eth0"}, nil
}

func (f *fake) do(c change) error {
	if f.left == 0 {
		panic(killed{})
	}
	f.left--
	if g, ok := c.object.(*guard); ok {
		return f.doGuard(c.verb, g)
	}
	if err := f.refused[c.object]; err != nil && c.verb != remove {
		return err
	}
	f.log = append(f.log, c)
	switch o := c.object.(type) {
	case device:
		return f.doDevice(c.verb, o)
	case entry:
		return f.doRoute(c.verb, o)
	case neighbour:
		return set(f, &f.neighbours, c.verb, o, o.device, func(n neighbour) bool { return n.device == o.device && n.address == o.address })
	case forward:
		return set(f, &f.forwards, c.verb, o, o.device, func(e forward) bool { return e.device == o.device && e.mac == o.mac })
	}
	panic(c)
}

func (f *fake) doGuard(v verb, g *guard) error {
	if f.unguarded != nil {
		return f.unguarded
	}
	delete(f.guards, g.device)
	if v != remove {
		f.guards[g.device] = g.signature()
	}
	return nil
}

// set adds or removes what a device has one of for a key.
func set[T comparable](f *fake, list *[]T, v verb, o T, device string, same func(T) bool) error {
	if f.link(device) == nil {
		return unix.ENODEV
	}
	if v == remove {
		*list = slices.DeleteFunc(*list, func(other T) bool { return other == o })
		return nil
	}
	if i := slices.IndexFunc(*list, same); i >= 0 {
		(*list)[i] = o
		return nil
	}
	*list = append(*list, o)
	return nil
}

func (f *fake) doRoute(v verb, e entry) error {
	if !e.ours {
		return fmt.Errorf("%s %s: it is foreign", v, e)
	}
	at := slices.IndexFunc(f.routes, func(o entry) bool { return o.place() == e.place() && (v == add || o.ours) })
	switch {
	case v == remove:
		f.routes = slices.DeleteFunc(f.routes, func(o entry) bool { return o == e })
		return nil
	case e.device != "" && (f.link(e.device) == nil || !f.link(e.device).up):
		return unix.ENODEV
	case v == add && at >= 0:
		return unix.EEXIST
	case v == replace && at < 0:
		return unix.ENOENT
	case v == replace:
		f.routes[at] = e
		return nil
	}
	f.routes = append(f.routes, e)
	return nil
}

func (f *fake) doDevice(v verb, d device) error {
	have := f.link(d.name)
	switch {
	case v == add && have != nil:
		return unix.EEXIST
	case v == add && slices.ContainsFunc(f.links, func(l link) bool { return l.kind == "vxlan" && l.id == d.id && l.port == d.port }):
		return unix.EEXIST
	case v == add:
		made := d
		made.alias, made.up, made.tuned, made.hasIPv4, made.ipv6, made.linkLocal = "", false, false, false, !f.ipv6Off, netip.Addr{}
		f.links = append(f.links, link{device: made, kind: "vxlan", index: 100 + len(f.log)})
	case have == nil:
		return unix.ENODEV
	case v == replace:
		if have.mac != d.mac {
			f.forget(d.name, false)
		}
		have.device = have.possible(d)
	default:
		f.links = slices.DeleteFunc(f.links, func(l link) bool { return l.name == d.name })
		f.forget(d.name, true)
	}
	return nil
}

// forget removes what the kernel removes with a MAC, or with an interface.
func (f *fake) forget(name string, gone bool) {
	f.neighbours = slices.DeleteFunc(f.neighbours, func(n neighbour) bool { return n.device == name })
	if gone {
		f.forwards = slices.DeleteFunc(f.forwards, func(e forward) bool { return e.device == name })
		f.routes = slices.DeleteFunc(f.routes, func(e entry) bool { return e.device == name })
	}
}

// foreignState is what others have made, as text.
func (f *fake) foreignState() string {
	lines := map[string]bool{}
	for _, e := range f.routes {
		if !e.ours {
			lines[fmt.Sprintf("%+v", e)] = true
		}
	}
	for _, l := range f.links {
		if !l.hasOurAlias() {
			lines[fmt.Sprintf("%+v", l)] = true
		}
	}
	return strings.Join(slices.Sorted(maps.Keys(lines)), "\n")
}

// state is all that is ours, as sorted text.
func (f *fake) state() string {
	var lines []string
	for _, e := range f.routes {
		if e.ours {
			lines = append(lines, e.String())
		}
	}
	for _, n := range f.neighbours {
		lines = append(lines, n.String())
	}
	for _, e := range f.forwards {
		lines = append(lines, e.String())
	}
	for _, l := range f.links {
		if l.hasOurAlias() {
			lines = append(lines, fmt.Sprintf("%s mtu %d %s local %s id %d port %d", l.device, l.mtu, l.mac, l.local, l.id, l.port))
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}
