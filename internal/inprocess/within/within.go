// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Package within runs functions in the network namespaces of attachments. A panic of such a function is one of its caller,
// who turns it into an error (Recovered), because this process serves other allocations as well.
package within

import (
	"fmt"
	"runtime/debug"

	"github.com/containernetworking/cni/pkg/types"
	"github.com/containernetworking/plugins/pkg/ns"
)

// Namespace runs f in a namespace. Package ns does so in a goroutine of its own, where a panic
// would end the process: it is passed on to the caller instead.
func Namespace(netns ns.NetNS, f func(host ns.NetNS) error) error {
	var p *Panic
	err := netns.Do(func(host ns.NetNS) error {
		defer func() {
			if reason := recover(); reason != nil {
				p = Recovered(reason)
			}
		}()
		return f(host)
	})
	if p != nil {
		panic(p)
	}
	return err
}

// Path runs f in the namespace at a path.
func Path(path string, f func(host ns.NetNS) error) error {
	netns, err := ns.GetNS(path)
	if err != nil {
		return err
	}
	defer netns.Close() //nolint:errcheck // read only
	return Namespace(netns, f)
}

// Panic is a panic with the stack of the goroutine where it began.
type Panic struct {
	reason any
	stack  string
}

// CNIError returns the panic of what happened meanwhile as a CNI error, with the stack as its
// details.
func (p *Panic) CNIError(what string) *types.Error {
	return types.NewError(types.ErrInternal, fmt.Sprintf("%s: panic: %v", what, p.reason), p.stack)
}

// Recovered is called where a panic is recovered.
func Recovered(reason any) *Panic {
	if p, ok := reason.(*Panic); ok {
		return p
	}
	return &Panic{reason, string(debug.Stack())}
}

// RecoverInto is deferred. It makes a panic the error of all.
func RecoverInto(errs []error) {
	reason := recover()
	if reason == nil {
		return
	}
	for i := range errs {
		errs[i] = Recovered(reason).CNIError("commit")
	}
}
