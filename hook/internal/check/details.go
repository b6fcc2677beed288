// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package check

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/containernetworking/cni/pkg/version"

	"github.com/allocnet/allocnet/cniconf"
	"github.com/allocnet/allocnet/hook/internal/onrecord"
	"github.com/allocnet/allocnet/hook/internal/operation"
	"github.com/allocnet/allocnet/hook/internal/repair"
	"github.com/allocnet/allocnet/state"
)

// Details are what is recorded of an attachment beside Attachment, and what it has on the host
// beside links.
type Details struct {
	Network   string `json:"network"`
	Interface string `json:"interface"`
	// ContainerID is what its plugins get as CNI_CONTAINERID.
	ContainerID string `json:"containerID"`
	// Executor is what executed ADD, in-process or plugins. Empty: ADD has not begun.
	Executor state.Executor `json:"executor,omitempty"`
	// CNIVersion is that of the recorded conflist.
	CNIVersion string `json:"cniVersion,omitempty"`
	// Plugins are those of the recorded conflist, by type.
	Plugins []string `json:"plugins,omitempty"`
	// Updated is when the record was changed last.
	Updated time.Time `json:"updated"`
	// Rules are those that the attachment has to have for itself.
	Rules []repair.Rule `json:"rules,omitempty"`
	// RulesError is why not all rules are known. Empty: they are.
	RulesError string            `json:"rulesError,omitempty"`
	Leases     []operation.Lease `json:"leases,omitempty"`
}

// Describe is Engine.Details.
func Describe(ctx context.Context, e *operation.Env, id string) ([]Details, error) {
	r, err := e.Store.Read(id)
	if err != nil {
		return nil, err
	}
	o := e.On(r)
	defer o.CloseNamespace()
	var all []Details
	for i, a := range r.Attachments {
		d := Details{Network: a.Network, Interface: a.Interface, ContainerID: a.ContainerID, Executor: a.Executor, Updated: a.Updated}
		if err := describeHost(ctx, o, i, &d); err != nil {
			d.RulesError = err.Error()
		}
		all = append(all, d)
	}
	return all, nil
}

// describeHost adds what an attachment has on the host. The error is why its rules are not known.
func describeHost(ctx context.Context, o *operation.Operation, at int, d *Details) error {
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
