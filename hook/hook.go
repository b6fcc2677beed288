// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package hook

import (
	"context"
	"fmt"
	"net/netip"

	"github.com/allocnet/allocnet/cniconf"
	"github.com/allocnet/allocnet/hook/internal/check"
	"github.com/allocnet/allocnet/hook/internal/kernel"
	"github.com/allocnet/allocnet/hook/internal/operation"
)

// Names of the implementations that New knows.
const (
	// CNI attaches allocations to CNI networks.
	CNI = "cni"
	// NoOp serves allocations that use the host's network.
	NoOp = "noop"
)

// Hook is what an orchestrator calls around the life of an allocation.
type Hook interface {
	// Setup attaches the allocation as the request says. Repeated with the
	// same request in the same namespace it returns the existing allocation; with another
	// request it fails with ErrConflict. When the namespace of an earlier
	// Setup is gone its attachments are torn down first.
	Setup(ctx context.Context, r Request) (*Allocation, error)

	// Teardown removes every attachment of the allocation. An unknown
	// allocation, a missing namespace and a second call are not errors.
	Teardown(ctx context.Context, id string) error

	// Check tells for each attachment whether it still is as it was set up.
	// The error joins those of the attachments that are not; an allocation
	// that is not set up is state.ErrNotFound.
	Check(ctx context.Context, id string) ([]Checked, error)

	// Status returns the allocation as recorded, without running a plugin.
	// An allocation that is not set up is state.ErrNotFound.
	Status(ctx context.Context, id string) (*Allocation, error)

	// GC tears down the recorded allocations whose namespace is gone, runs CNI's GC
	// on the networks of the CNI configuration directories, and removes leaks by
	// force. Where it is not known which allocations live, or which namespaces, the
	// result is nil, and nothing has been removed.
	GC(ctx context.Context, r GCRequest) (*Collected, error)
}

// New returns the implementation of the given name: CNI or NoOp. NoOp uses Host and
// Logger of the configuration; it keeps no records and runs no plugins.
func New(name string, c Config) (Hook, error) {
	switch name {
	case CNI:
		return NewEngine(c)
	case NoOp:
		c = c.WithDefaults()
		c.Host.FilterBridges(c.Logger)
		return noOp{}, nil
	}
	return nil, fmt.Errorf("unknown hook %q: want %q or %q", name, CNI, NoOp)
}

// Ready is Engine.Ready without an engine, and so without a state directory.
func Ready(ctx context.Context, c Config, n *cniconf.Network) error {
	return check.Ready(ctx, &operation.Env{Config: c.WithDefaults()}, n)
}

// IPTables returns the kind of iptables that this host's programs are now: nft or legacy; empty if that is not known.
func IPTables() string { return kernel.NewHost().IPTables() }

// AnnounceAgain is what Config.AnnounceAgain has done, in a process that has as arguments what that has been given: the path of a
// namespace, an interface, and addresses. It takes some seconds.
func AnnounceAgain(ctx context.Context, arguments []string) error {
	if len(arguments) < 3 {
		return fmt.Errorf("%q: want the path of a network namespace, an interface, and addresses", arguments)
	}
	var addresses []netip.Addr
	for _, text := range arguments[2:] {
		address, err := netip.ParseAddr(text)
		if err != nil {
			return err
		}
		addresses = append(addresses, address)
	}
	return kernel.AnnounceAgain(ctx, arguments[0], arguments[1], addresses)
}

// Undoing returns the context in which to undo what was done under ctx. The
// caller cannot cancel it, and it has the time that ctx has left, or a little
// when none is.
func Undoing(ctx context.Context) (context.Context, context.CancelFunc) {
	return operation.Undoing(ctx)
}
