// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package hook

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/containernetworking/cni/libcni"

	"github.com/allocnet/allocnet/cniconf"
	"github.com/allocnet/allocnet/internal/errdefs"
	"github.com/allocnet/allocnet/internal/netns"
	"github.com/allocnet/allocnet/state"
)

// Checked is the outcome of Check for one attachment.
type Checked struct {
	Network   string `json:"network"`
	Interface string `json:"interface"`
	// Skipped says why the network's plugins were not asked: its version is
	// below 0.4.0 or it has disableCheck. Empty when they were.
	Skipped string `json:"skipped,omitempty"`
	// Err is nil when all is as it was set up.
	Err error `json:"-"`
}

// Check examines every attachment; see Hook.
func (e *Engine) Check(ctx context.Context, id string) ([]Checked, error) {
	o, err := e.begin(ctx, id)
	if err != nil {
		return nil, err
	}
	defer o.end()
	if !o.known() {
		return nil, fmt.Errorf("allocation %s %w", id, state.ErrNotFound)
	}
	ns, err := o.namespace()
	if err != nil { // a namespace that is gone is what the check found
		return nil, errdefs.As(errdefs.Failed, fmt.Errorf("allocation %s: %w", id, err))
	}
	defer ns.Close() //nolint:errcheck // read only
	interfaces, err := ns.Interfaces()
	if err != nil {
		return nil, fmt.Errorf("allocation %s: %w", id, err)
	}
	checked := make([]Checked, len(o.record.Attachments))
	errs := make([]error, len(checked))
	inOrder(len(checked), func(int) []int { return nil }, func(i int) {
		checked[i] = o.check(ctx, o.record.Attachments[i], interfaces)
		errs[i] = checked[i].Err
	})
	return checked, errors.Join(errs...)
}

// check compares an attachment with the namespace, then asks its plugins.
func (o *operation) check(ctx context.Context, a state.Attachment, present []netns.Interface) Checked {
	c := Checked{Network: a.Network, Interface: a.Interface}
	err := compare(a, present)
	if err == nil {
		c.Skipped, err = o.checkPlugins(ctx, a)
	}
	if err != nil {
		c.Err = o.failure("check", a, 1, err)
	}
	return c
}

func (o *operation) checkPlugins(ctx context.Context, a state.Attachment) (skipped string, err error) {
	cni, list, err := o.cni(a, nil)
	if err != nil {
		return "", err
	}
	if list.DisableCheck {
		return "the network has disableCheck", nil
	}
	if err := o.restoreCache(a); err != nil {
		return "", err
	}
	if err := o.followBridges(a); err != nil {
		return "", err
	}
	err = cni.CheckNetworkList(ctx, list, o.runtimeConf(a, o.record.Allocation.Netns))
	if errors.Is(err, libcni.ErrorCheckNotSupp) {
		return fmt.Sprintf("cniVersion %s has no CHECK", list.CNIVersion), nil
	}
	return "", err
}

// followBridges gives CHECK the MAC that a bridge of the host has now. A bridge
// without an address takes the lowest MAC of its ports, so it changes when other
// allocations come and go, and the bridge plugin would call that a fault.
func (o *operation) followBridges(a state.Attachment) error {
	if a.Result == nil {
		return nil
	}
	result, err := parseResult(a.Result)
	if err != nil {
		return err
	}
	bridges := false
	for _, i := range result.Interfaces {
		if i.Sandbox != "" {
			continue
		}
		mac, isBridge, err := netns.BridgeMAC(i.Name)
		if err != nil {
			return err
		}
		if isBridge {
			i.Mac, bridges = mac, true
		}
	}
	if !bridges {
		return nil
	}
	list, err := cniconf.ParseList(a.ConfList)
	if err != nil {
		return err
	}
	return o.replaceResult(&a, result, list.CNIVersion)
}

// compare looks for what the attachment had: plugins of the oldest versions
// have no CHECK, and some look at less.
func compare(a state.Attachment, present []netns.Interface) error {
	if a.Phase != state.Attached || a.Status == nil {
		return fmt.Errorf("set-up was cut off in phase %q: tear it down and set it up again", a.Phase)
	}
	var seen Observed
	if err := json.Unmarshal(a.Status, &seen); err != nil {
		return fmt.Errorf("read recorded status: %w", err)
	}
	at := slices.IndexFunc(present, func(i netns.Interface) bool { return i.Name == a.Interface })
	if at < 0 {
		return fmt.Errorf("interface is gone")
	}
	i := present[at]
	if seen.MAC != "" && i.MAC != seen.MAC {
		return fmt.Errorf("MAC is %s, was set up as %s", i.MAC, seen.MAC)
	}
	if !i.Up {
		return fmt.Errorf("interface is down")
	}
	return nil
}
