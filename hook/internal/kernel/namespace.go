// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package kernel

import (
	"net/netip"
	"time"

	"github.com/allocnet/allocnet/internal/netns"
)

// Namespaces makes, opens and removes network namespaces.
type Namespaces interface {
	// New makes a namespace that ends with Close or with the process, unless it is
	// pinned.
	New() (Namespace, error)
	// Open opens the namespace at path. The error is netns.ErrMissing when there is
	// none, or the host's own: plugins would change the host, and DEL its interfaces.
	Open(path string) (Namespace, error)
	// Find opens the namespace that has an ID and exists since a time, wherever on the host it is held
	// open. The error is netns.ErrMissing when there is none, or none that can be looked into.
	Find(id string, since time.Time) (Namespace, error)
	// HavingMAC opens the namespaces but the host's own that have an interface with a MAC since a time, wherever they are held.
	HavingMAC(mac string, since time.Time) ([]Namespace, error)
	// Exists tells whether there is a namespace at path. One that cannot be examined
	// exists.
	Exists(path string) bool
	// Remove unpins the namespace at path. One that is gone is no error.
	Remove(path string) error
}

// Namespace is an open network namespace.
type Namespace interface {
	// ID identifies the namespace for ever; paths and inodes are used again.
	ID() string
	// Handle is a path that leads to the namespace until Close, whatever is at its own path.
	Handle() string
	// Do runs f in it.
	Do(f func() error) error
	// Interfaces returns its interfaces, sorted by name.
	Interfaces() ([]netns.Interface, error)
	// Announce has the kernel tell the caller's namespace of changes in it, for those who listen
	// to all namespaces.
	Announce() error
	// SetLoopbackUp sets its loopback interface up.
	SetLoopbackUp() error
	// SetAcceptRA has an interface, or netns.NewInterfaces, accept IPv6 router
	// advertisements, or ignore them and lose what earlier ones gave it.
	SetAcceptRA(iface string, accept bool) error
	// RestoreAcceptRA does so, and takes nothing from the interface.
	RestoreAcceptRA(iface string, accept bool) error
	// AcceptsRA tells whether an interface is as SetAcceptRA leaves it.
	AcceptsRA(iface string, accept bool) (bool, error)
	// IsIPv6Off tells whether IPv6 is switched off on an interface.
	IsIPv6Off(iface string) (bool, error)
	// SwitchIPv6Off switches IPv6 off on an interface.
	SwitchIPv6Off(iface string) error
	// SuspendIPv6 has new interfaces come without IPv6 until ResumeIPv6, which is safe to repeat, also after a kill.
	SuspendIPv6() error
	ResumeIPv6() error
	// SetParameter sets a parameter of the kernel, a path such as net/ipv4/tcp_syncookies.
	SetParameter(path, value string) error
	// Parameter returns such a parameter.
	Parameter(path string) (string, error)
	// DefaultRoutes returns its default routes, IPv4 first, without those of accepted
	// router advertisements.
	DefaultRoutes() ([]netns.Route, error)
	// SetDefaultRoute makes the gateway the only default route of its family.
	SetDefaultRoute(gateway netip.Addr, iface string) error
	// AddDefaultRoute makes the gateway a default route if its family has none.
	AddDefaultRoute(gateway netip.Addr, iface string) error
	// RemoveDefaultRoutes removes those of a family by gateways through an interface.
	RemoveDefaultRoutes(iface string, v6 bool) error
	// UsedTables returns the numbers of routing tables that are not free.
	UsedTables() (map[int]bool, error)
	// RoutesOf returns the routes of the main table through an interface, those without
	// a gateway first.
	RoutesOf(iface string) ([]netns.TableRoute, error)
	// AddSourceRoutes makes a routing table with its rules. It is safe to repeat.
	AddSourceRoutes(s netns.SourceRoutes) error
	// RemoveSourceRoutes removes them; missing ones are no error.
	RemoveSourceRoutes(s netns.SourceRoutes) error
	// MissingSourceRoutes returns those that are not there, as text.
	MissingSourceRoutes(s netns.SourceRoutes) ([]string, error)
	// RemoveInterface removes an interface; a missing one is no error.
	RemoveInterface(name string) error
	// Mount pins the namespace at dir/name. The error is netns.ErrExists when there
	// is anything at that path.
	Mount(dir, name string) (path string, err error)
	// Close releases the namespace.
	Close() error
}

// Look returns the interfaces of a namespace and its default routes.
func Look(ns Namespace) (present []netns.Interface, routes []netns.Route, err error) {
	if present, err = ns.Interfaces(); err == nil {
		routes, err = ns.DefaultRoutes()
	}
	return present, routes, err
}

// NewNamespaces returns those of the kernel.
func NewNamespaces() Namespaces { return &ownNamespaces{} }

type ownNamespaces struct{ finder netns.Finder }

func (*ownNamespaces) Exists(path string) bool  { return netns.Exists(path) }
func (*ownNamespaces) Remove(path string) error { return netns.Remove(path) }

func (*ownNamespaces) New() (Namespace, error) {
	ns, err := netns.New()
	if err != nil {
		return nil, err // and no *netns.Namespace that is nil
	}
	return ns, nil
}

func (*ownNamespaces) Open(path string) (Namespace, error) {
	ns, err := netns.Open(path)
	if err != nil {
		return nil, err // and no *netns.Namespace that is nil
	}
	own, err := ns.IsOwn()
	if err == nil && own {
		err = &netns.MissingError{Path: path, Reason: "the path is the host's own namespace"}
	}
	if err != nil {
		_ = ns.Close() // the first error is returned
		return nil, err
	}
	return ns, nil
}

func (k *ownNamespaces) Find(id string, since time.Time) (Namespace, error) {
	ns, err := k.finder.Find(id, since)
	if err != nil {
		return nil, err // and no *netns.Namespace that is nil
	}
	return ns, nil
}

func (k *ownNamespaces) HavingMAC(mac string, since time.Time) (all []Namespace, err error) {
	found, err := k.finder.HavingMAC(mac, since)
	for _, ns := range found {
		all = append(all, ns)
	}
	return all, err
}
