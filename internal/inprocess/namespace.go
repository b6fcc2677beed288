// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package inprocess

import (
	"fmt"
	"runtime/debug"

	"github.com/containernetworking/cni/pkg/types"
	"github.com/containernetworking/plugins/pkg/ns"
)

// within runs f in a namespace. Package ns does so in a goroutine of its own, where a panic
// would end the process: it is passed on to the caller instead.
func within(netns ns.NetNS, f func(host ns.NetNS) error) error {
	var p *panicked
	err := netns.Do(func(host ns.NetNS) error {
		defer func() {
			if reason := recover(); reason != nil {
				p = newPanicked(reason)
			}
		}()
		return f(host)
	})
	if p != nil {
		panic(p)
	}
	return err
}

// withinPath runs f in the namespace at a path.
func withinPath(path string, f func(host ns.NetNS) error) error {
	netns, err := ns.GetNS(path)
	if err != nil {
		return err
	}
	defer netns.Close() //nolint:errcheck // read only
	return within(netns, f)
}

// panicked is a panic with the stack of the goroutine where it began.
type panicked struct {
	reason any
	stack  string
}

// cniError returns the panic of what happened meanwhile as a CNI error, with the stack as its
// details.
func (p *panicked) cniError(what string) *types.Error {
	return types.NewError(types.ErrInternal, fmt.Sprintf("%s: panic: %v", what, p.reason), p.stack)
}

// newPanicked is called where a panic is recovered.
func newPanicked(reason any) *panicked {
	if p, ok := reason.(*panicked); ok {
		return p
	}
	return &panicked{reason, string(debug.Stack())}
}

// recoverInto is deferred. It makes a panic the error of all.
func recoverInto(errs []error) {
	reason := recover()
	if reason == nil {
		return
	}
	for i := range errs {
		errs[i] = newPanicked(reason).cniError("commit")
	}
}
