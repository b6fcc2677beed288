// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package hook

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"

	"github.com/containernetworking/cni/libcni"
	"github.com/containernetworking/cni/pkg/invoke"

	"github.com/allocnet/allocnet/hook/internal/inspect"
	"github.com/allocnet/allocnet/hook/internal/onrecord"
	"github.com/allocnet/allocnet/internal/cniexec"
	"github.com/allocnet/allocnet/internal/errdefs"
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
	// Repairable is whether a repair makes all that is missing.
	Repairable bool `json:"repairable,omitempty"`
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
	for i, a := range o.record.Attachments {
		checked[i] = Checked{Network: a.Network, Interface: a.Interface}
		if !onrecord.IsComplete(a) {
			o.setOutcome(&checked[i], a, inspect.NotComplete(a))
		}
	}
	compared := e.compared(ctx, o, ns, func(state.Attachment) bool { return true })
	o.noteSucceeded(newlySucceeded(compared))
	for _, p := range compared {
		c := &checked[p.at]
		c.Skipped = cmp.Or(p.moved, p.skipped)
		foreign := inspect.ForeignGateways(*p.attachment(), routes)
		o.setOutcome(c, *p.attachment(), errors.Join(p.difference(), foreign))
		c.Repairable = foreign == nil && p.isRepairable()
	}
	for i := range checked {
		errs[i] = checked[i].Err
	}
	return checked, errors.Join(append(errs, damage, inspect.Namespace(o.record, interfaces, routes))...)
}

// setOutcome notes why an attachment is not as it was set up, unless err is nil.
func (o *operation) setOutcome(c *Checked, a state.Attachment, err error) {
	if err != nil {
		c.Err, c.Unknown = o.failure("check", a, 1, err), !inspect.IsDamage(err)
	}
}

// checkPlugins runs CHECK of plugins that allocnet does not know.
func (o *operation) checkPlugins(ctx context.Context, a state.Attachment) (skipped string, err error) {
	list, err := onrecord.List(a)
	if err != nil {
		return "", err
	}
	if list.DisableCheck {
		return "the network has disableCheck", nil
	}
	if o.config.madeByOtherIPTables(a) {
		return fmt.Sprintf("its plugins made rules with iptables-%s, and the host's iptables is another one now", a.IPTables), nil
	}
	plugins, _ := o.exec(a, list, false)
	runner, err := o.runner(plugins, o.record.Allocation.Netns)
	if err != nil {
		return "", err
	}
	exec := &checkExec{Exec: runner}
	if err := o.setResult(exec, a, list.CNIVersion); err != nil {
		return "", err
	}
	// libcni is given no cache: what is there another operation may be writing.
	cni := libcni.NewCNIConfigWithCacheDir(o.config.pluginDirs(a), os.DevNull, exec)
	err = cni.CheckNetworkList(ctx, list, o.runtimeConf(a, o.record.Allocation.Netns))
	if errors.Is(err, libcni.ErrorCheckNotSupp) {
		return fmt.Sprintf("cniVersion %s has no CHECK", list.CNIVersion), nil
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
		err = inspect.JudgePortCheck(err, x.addresses)
	}
	return out, err
}

// setResult gives plugins the recorded result with the MACs that interfaces of the host have now, and the name of the
// end of the attachment's pair: a bridge without an address takes the lowest MAC of its ports, udev changes MACs that
// the kernel chose, operators rename links, and the reference plugins would call that a fault.
func (o *operation) setResult(x *checkExec, a state.Attachment, version string) error {
	if a.Result == nil {
		return nil
	}
	result, err := onrecord.ParseResult(a.Result)
	if err != nil {
		return err
	}
	end, err := onrecord.HostEnd(a)
	if err != nil {
		return err
	}
	for _, i := range result.Interfaces {
		if i.Sandbox != "" || i.Mac == "" {
			continue
		}
		if end != nil && i.Name == end.Name {
			name, err := inspect.FindEnd(o.config.Host, end)
			if err != nil {
				return err
			}
			i.Name = cmp.Or(name, i.Name)
		}
		mac, found, err := o.config.Host.LinkMAC(i.Name)
		if err != nil {
			return err
		}
		if found {
			i.Mac = mac
		}
	}
	x.addresses = onrecord.InterfaceAddresses(result, a.Interface)
	x.result, err = onrecord.EncodeResult(result, version)
	return err
}
