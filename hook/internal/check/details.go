// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package check

import (
	"context"
	"errors"
	"fmt"

	"github.com/containernetworking/cni/pkg/version"

	"github.com/allocnet/allocnet/allocation"
	"github.com/allocnet/allocnet/cniconf"
	"github.com/allocnet/allocnet/hook/internal/onrecord"
	"github.com/allocnet/allocnet/hook/internal/operation"
	"github.com/allocnet/allocnet/hook/internal/repair"
)

// Describe is Engine.Details.
func Describe(ctx context.Context, e *operation.Env, id string) ([]allocation.Details, error) {
	r, err := e.Store.Read(id)
	if err != nil {
		return nil, err
	}
	o := e.On(r)
	defer o.CloseNamespace()
	counted := traffic(o)
	var all []allocation.Details
	for i, a := range r.Attachments {
		d := allocation.Details{Network: a.Network, Interface: a.Interface, ContainerID: a.ContainerID, Executor: a.Executor, Updated: a.Updated, Traffic: counted[a.Interface]}
		if err := describeHost(ctx, o, i, &d); err != nil {
			d.RulesError = err.Error()
		}
		all = append(all, d)
	}
	return all, nil
}

// traffic returns what the interfaces of an allocation have counted, by name. What is not known is not there.
func traffic(o *operation.Operation) map[string]*allocation.Traffic {
	counted := map[string]*allocation.Traffic{}
	ns, err := o.Namespace()
	if err != nil {
		return counted
	}
	interfaces, err := ns.Interfaces()
	if err != nil {
		return counted
	}
	for _, i := range interfaces {
		counted[i.Name] = &allocation.Traffic{ReceivedBytes: i.Received, SentBytes: i.Sent}
	}
	return counted
}

// describeHost adds what an attachment has on the host. The error is why its rules are not known.
func describeHost(ctx context.Context, o *operation.Operation, at int, d *allocation.Details) error {
	a := o.Record.Attachments[at]
	list, err := onrecord.List(a)
	if err != nil {
		return err
	}
	n := cniconf.Network{Name: list.Name, List: list}
	d.CNIVersion, d.Plugins, d.Leases = list.CNIVersion, n.PluginTypes(), operation.LeasesOf(a, n.Pools())
	d.Rules, err = repair.RulesOf(ctx, o, at, list)
	return err
}

// ErrNoStatus is a network whose version of the specification has no STATUS.
var ErrNoStatus = errors.New("cniVersion has no STATUS")

// Ready is Engine.Ready.
func Ready(ctx context.Context, e *operation.Env, n *cniconf.Network) error {
	if err := n.CheckRouted(); err != nil {
		return err
	}
	if supported, err := version.GreaterThanOrEqualTo(n.List.CNIVersion, "1.1.0"); err != nil || !supported {
		return fmt.Errorf("network %q: %w: %s", n.Name, ErrNoStatus, n.List.CNIVersion)
	}
	if err := e.NetworkChain(n).CNI.GetStatusNetworkList(ctx, n.List); err != nil {
		return fmt.Errorf("network %q is not ready: %w", n.Name, err)
	}
	return nil
}
