// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package hook

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"

	"github.com/containernetworking/cni/libcni"
	"github.com/containernetworking/cni/pkg/invoke"
	"github.com/containernetworking/cni/pkg/types"

	"github.com/allocnet/allocnet/internal/cniexec"
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
	// Unknown is whether Err says why it cannot be told now, not what is damaged.
	Unknown bool `json:"unknown,omitempty"`
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
	if !o.hasRecord() {
		return nil, fmt.Errorf("allocation %s %w", id, state.ErrNotFound)
	}
	damage := o.restoreForCheck()
	ns, err := o.namespace()
	if err != nil { // a namespace that is gone is what the check found
		return nil, errdefs.As(errdefs.Failed, fmt.Errorf("allocation %s: %w", id, err))
	}
	defer ns.Close() //nolint:errcheck // read only
	interfaces, err := ns.Interfaces()
	if err != nil {
		return nil, fmt.Errorf("allocation %s: %w", id, err)
	}
	routes, err := ns.DefaultRoutes()
	if err != nil {
		return nil, fmt.Errorf("allocation %s: %w", id, err)
	}
	checked := make([]Checked, len(o.record.Attachments))
	errs := make([]error, len(checked))
	inOrder(ctx, len(checked), func(int) []int { return nil }, func(i int) {
		a := o.record.Attachments[i]
		checked[i] = o.check(ctx, a, interfaces)
		if checked[i].Err == nil {
			o.setOutcome(&checked[i], a, errors.Join(checkGateways(a, routes), checkSourceRoutes(ns, a)))
		}
		errs[i] = checked[i].Err
	})
	return checked, errors.Join(append(errs, damage, o.checkNamespace(interfaces, routes))...)
}

// check compares an attachment with the namespace, then asks its plugins.
func (o *operation) check(ctx context.Context, a state.Attachment, present []netns.Interface) Checked {
	c := Checked{Network: a.Network, Interface: a.Interface}
	err := compare(a, present)
	if err == nil {
		c.Skipped, err = o.checkPlugins(ctx, a)
	}
	o.setOutcome(&c, a, err)
	return c
}

// setOutcome notes why an attachment is not as it was set up, unless err is nil.
func (o *operation) setOutcome(c *Checked, a state.Attachment, err error) {
	if err != nil {
		c.Err, c.Unknown = o.failure("check", a, 1, err), !isDamage(err)
	}
}

// DamageError is what was seen to be wrong with a network.
type DamageError struct{ Reason string }

func (e *DamageError) Error() string { return e.Reason }

func damaged(format string, a ...any) error { return &DamageError{fmt.Sprintf(format, a...)} }

// isDamage tells what was seen to be wrong from what keeps anyone from seeing
// it: a plugin that is missing, hangs or dies, the codes of the CNI specification
// that speak of the call, and what a plugin lacks. Plugins report damage with code
// 3, with codes of their own, or, as the reference plugins do, with 999.
func isDamage(err error) bool {
	var seen *DamageError
	if errors.As(err, &seen) || errors.Is(err, netns.ErrMissing) {
		return true
	}
	var own *types.Error
	if !errors.As(err, &own) || namesObstacle(own.Error()) {
		return false
	}
	return own.Code == types.ErrUnknownContainer || own.Code == 0 || own.Code >= 100
}

func (o *operation) checkPlugins(ctx context.Context, a state.Attachment) (skipped string, err error) {
	list, err := recordedList(a)
	if err != nil {
		return "", err
	}
	if list.DisableCheck {
		return "the network has disableCheck", nil
	}
	plugins, changes := o.exec(a, list, false)
	exec := &checkExec{Exec: &cniexec.Runner{Exec: plugins, Limit: o.config.CallTimeout}}
	if err := o.setResult(exec, a, list.CNIVersion); err != nil {
		return "", err
	}
	// libcni is given no cache: what is there another operation may be writing.
	cni := libcni.NewCNIConfigWithCacheDir(o.pluginDirs(a), os.DevNull, exec)
	err = cni.CheckNetworkList(ctx, list, o.runtimeConf(a, o.record.Allocation.Netns))
	if errors.Is(err, libcni.ErrorCheckNotSupp) {
		return fmt.Sprintf("cniVersion %s has no CHECK", list.CNIVersion), nil
	}
	if err != nil && replaces(changes, a) { // no damage: see replaces
		return "", fmt.Errorf("its plugins are not installed any more; in their place allocnet reports: %s", err.Error())
	}
	return "", err
}

// checkExec has plugins check the result that is on record.
type checkExec struct {
	invoke.Exec
	result json.RawMessage
	// addresses are those of the result.
	addresses []netip.Prefix
}

// ExecPlugin runs a plugin with the result as prevResult.
func (x *checkExec) ExecPlugin(ctx context.Context, path string, stdin []byte, environ []string) ([]byte, error) {
	if x.result != nil && cniexec.Verb(environ) == "CHECK" {
		var conf map[string]json.RawMessage
		if err := json.Unmarshal(stdin, &conf); err != nil {
			return nil, err
		}
		conf["prevResult"] = x.result
		var err error
		if stdin, err = json.Marshal(conf); err != nil {
			return nil, err
		}
	}
	out, err := x.Exec.ExecPlugin(ctx, path, stdin, environ)
	if err != nil && filepath.Base(path) == "portmap" {
		err = judgePortCheck(err, x.addresses)
	}
	return out, err
}

// setResult gives plugins the recorded result with the MAC that a bridge of the
// host has now. A bridge without an address takes the lowest MAC of its ports, so
// it changes when other allocations come and go, and the bridge plugin would call
// that a fault.
func (o *operation) setResult(x *checkExec, a state.Attachment, version string) error {
	if a.Result == nil {
		return nil
	}
	result, err := parseResult(a.Result)
	if err != nil {
		return err
	}
	for _, i := range result.Interfaces {
		if i.Sandbox != "" {
			continue
		}
		mac, isBridge, err := o.config.Host.BridgeMAC(i.Name)
		if err != nil {
			return err
		}
		if isBridge {
			i.Mac = mac
		}
	}
	x.addresses = interfaceAddresses(result, a.Interface)
	x.result, err = encodeResult(result, version)
	return err
}

// compare looks for what the attachment had: plugins of the oldest versions
// have no CHECK, and some look at less.
func compare(a state.Attachment, present []netns.Interface) error {
	if a.Phase != state.Attached || a.Status == nil {
		return damaged("set-up or teardown was interrupted in phase %q: tear it down and set it up again", a.Phase)
	}
	var seen recordedStatus
	if err := json.Unmarshal(a.Status, &seen); err != nil {
		return fmt.Errorf("read recorded status: %w", err)
	}
	at := indexOf(present, a.Interface)
	if at < 0 {
		return damaged("interface is gone")
	}
	i := present[at]
	if seen.MAC != "" && i.MAC != seen.MAC {
		return damaged("MAC is %s, was set up as %s", i.MAC, seen.MAC)
	}
	if !i.Up {
		return damaged("interface is down")
	}
	for _, address := range seen.Configured {
		if !slices.Contains(i.Addresses, address) {
			return damaged("address %s is gone", address)
		}
	}
	return nil
}
