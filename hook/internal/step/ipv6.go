// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package step

import (
	"context"
	"errors"
	"fmt"

	types "github.com/containernetworking/cni/pkg/types/100"

	"github.com/allocnet/allocnet/hook/internal/inspect"
	"github.com/allocnet/allocnet/hook/internal/onrecord"
	"github.com/allocnet/allocnet/policy"
	"github.com/allocnet/allocnet/state"
)

// withoutIPv6 has interfaces of networks without IPv6, and their ends on the host, come without it. In process ADD does that, and
// a kill leaves the same.
var withoutIPv6 = step{Around: suspendIPv6, Result: refuseIPv6, Added: switchIPv6Off, Undo: resumeIPv6, Lacks: lackingIPv6Off}

// suspendIPv6 runs ADD of plugins so that the interface sends nothing of IPv6 before allocnet sees it. Other interfaces of the
// namespace are made before or after.
func suspendIPv6(_ context.Context, w *Work, c Call, add func() error) error {
	if !c.Attachment.IPv6Off || c.InProcess {
		w.Defaults.RLock()
		defer w.Defaults.RUnlock()
		return add()
	}
	w.Defaults.Lock()
	defer w.Defaults.Unlock()
	ns, err := w.Namespace()
	if err != nil {
		return err
	}
	begun := c.Attachment
	begun.Planned = false // or a kill would leave what nothing undoes
	if err := w.Write(begun); err != nil {
		return err
	}
	if err = ns.SuspendIPv6(); err == nil {
		err = add()
	}
	return errors.Join(err, ns.ResumeIPv6())
}

// refuseIPv6 refuses an IPv6 address, which the configuration did not tell of. The plugin has switched IPv6 on for it.
func refuseIPv6(w *Work, c Call) error {
	a := c.Attachment
	if !a.IPv6Off {
		return nil
	}
	result, err := onrecord.ParseResult(a.Result)
	if err != nil {
		return err
	}
	for _, address := range onrecord.Addresses(result) {
		if address.Addr().Is6() {
			return fmt.Errorf("its plugins have assigned %s, and \"ipv6\" of the network is %q in %s: want %q, or no IPv6 addresses",
				address, policy.IPv6Off, w.FileOf(a.Network), policy.IPv6LinkLocal)
		}
	}
	return nil
}

// switchIPv6Off does what plugins did not: on the host new links have IPv6, and a device keeps what it is.
func switchIPv6Off(w *Work, a *state.Attachment) error {
	if !a.IPv6Off || a.Executor == state.InProcess {
		return nil
	}
	return makeAll(lackingIPv6Off(context.Background(), w, *a))
}

// makeAll makes what is lacking, as far as it can be made, and is known.
func makeAll(lacks []Lack, err error) error {
	for _, lack := range lacks {
		err = errors.Join(err, lack.Make())
	}
	return err
}

// resumeIPv6 is for the ADD of a killed process.
func resumeIPv6(_ context.Context, w *Work, a state.Attachment) {
	if !a.IPv6Off || a.Status != nil && a.FormerResult == nil {
		return
	}
	ns, err := w.Namespace()
	if err != nil { // it is gone, or DEL says what is wrong
		return
	}
	if err := ns.ResumeIPv6(); err != nil {
		w.log(a).Warn("new interfaces in the namespace have no IPv6", "error", err)
	}
}

// lackingIPv6Off looks whether a task or an operator has switched IPv6 on.
func lackingIPv6Off(_ context.Context, w *Work, a state.Attachment) (lacks []Lack, err error) {
	if !a.IPv6Off {
		return nil, nil
	}
	ns, err := w.Namespace()
	if err != nil {
		return nil, err
	}
	off, err := ns.IsIPv6Off(a.Interface)
	if err != nil {
		return nil, err
	}
	if !off {
		lacks = append(lacks, Lack{a.Interface + " has to be without IPv6", func() error { return ns.SwitchIPv6Off(a.Interface) }})
	}
	end, err := hostEnd(a)
	if err != nil || end == nil {
		return lacks, err
	}
	name, err := inspect.FindEnd(w.Host, end)
	if err == nil && name != "" { // a plugin may report the uplink of the host instead
		name, err = w.Host.FindLink(name, "veth", "")
	}
	if err != nil || name == "" {
		return lacks, err
	}
	if off, err = w.Host.IsIPv6Off(name); err == nil && !off {
		lacks = append(lacks, Lack{name + " of the host has to be without IPv6", func() error { return w.Host.SwitchIPv6Off(name) }})
	}
	return lacks, err
}

// hostEnd returns the end on the host that packets leave by; nil if there is none. What comes to the port of a bridge the bridge takes.
func hostEnd(a state.Attachment) (*types.Interface, error) {
	list, err := onrecord.List(a)
	if err != nil || len(onrecord.Bridges(list)) > 0 {
		return nil, err
	}
	return onrecord.HostEnd(a, list)
}
