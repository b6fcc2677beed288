// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package hook

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"slices"
	"strings"

	"github.com/containernetworking/cni/libcni"

	"github.com/allocnet/allocnet/allocation"
	"github.com/allocnet/allocnet/cniconf"
	"github.com/allocnet/allocnet/hook/internal/onrecord"
	"github.com/allocnet/allocnet/internal/cniexec"
	"github.com/allocnet/allocnet/internal/leases"
	"github.com/allocnet/allocnet/state"
)

// What is told of an attachment beside Attachment.
type (
	// Details are what is recorded of it, and what it has on the host beside links.
	Details = allocation.Details
	// Rule is a rule of the host's packet filters.
	Rule = allocation.Rule
	// Lease is that of an address from a pool.
	Lease = allocation.Lease
)

const hostLocal = "host-local"

// Details returns those of each attachment of an allocation. It changes nothing, waits for no lock
// of the allocation, and runs no plugin; programs that list the host's rules are run.
func (e *Engine) Details(ctx context.Context, id string) ([]Details, error) {
	r, err := e.store.Read(id)
	if err != nil {
		return nil, err
	}
	o := e.on(r)
	defer o.opened.close()
	var all []Details
	for i, a := range r.Attachments {
		d := Details{Network: a.Network, Interface: a.Interface, ContainerID: a.ContainerID, Executor: a.Executor, Updated: a.Updated}
		if err := o.describeHost(ctx, i, &d); err != nil {
			d.RulesError = err.Error()
		}
		all = append(all, d)
	}
	return all, nil
}

// describeHost adds what an attachment has on the host. The error is why its rules are not known.
func (o *operation) describeHost(ctx context.Context, at int, d *Details) error {
	a := o.record.Attachments[at]
	list, err := onrecord.List(a)
	if err != nil {
		return err
	}
	n := cniconf.Network{Name: list.Name, List: list}
	d.CNIVersion, d.Plugins, d.Leases = list.CNIVersion, n.PluginTypes(), leasesOf(a, n.Pools())
	d.Rules, err = o.rules(ctx, at, list)
	return err
}

// errUnknownRules is that plugins which allocnet does not know may have made rules.
var errUnknownRules = errors.New("the network has plugins or options that allocnet does not know, and rules of theirs are not listed")

// rules returns those of an attachment.
func (o *operation) rules(ctx context.Context, at int, list *libcni.NetworkConfigList) ([]Rule, error) {
	p := &repairing{operation: o, at: at}
	p.DryRun = true
	if p.attachment().Result == nil {
		return nil, nil
	}
	if !o.config.isKnown(*p.attachment(), list) {
		return nil, errUnknownRules
	}
	limit := o.config.CallTimeout
	ctx, stop := context.WithTimeoutCause(ctx, limit, &cniexec.CommitTimeoutError{Limit: limit})
	defer stop()
	p.supported(ctx, list)
	switch {
	case len(p.Unrepairable) > 0:
		return nil, errors.New("not listed while this is missing: " + strings.Join(p.Unrepairable, "; "))
	case p.changes == nil:
		return nil, p.Err
	}
	found, err := o.config.InProcess.ListRules(ctx, p.changes)
	rules := make([]Rule, len(found))
	for i, r := range found {
		rules[i] = Rule{Program: r.Program, Table: r.Table, Chain: r.Chain, Rule: r.Text, Present: r.Present}
	}
	return rules, err
}

// leasesOf looks for the leases of the addresses of an attachment.
func leasesOf(a state.Attachment, pools []cniconf.Pool) []Lease {
	if a.Result == nil {
		return nil
	}
	result, err := onrecord.ParseResult(a.Result)
	if err != nil {
		return nil
	}
	var all []Lease
	for _, address := range onrecord.InterfaceAddresses(result, a.Interface) {
		for _, p := range pools {
			if l, has := leaseOf(a, p, address.Addr()); has {
				all = append(all, l)
			}
		}
	}
	return all
}

// leaseOf looks for the lease of an address in a pool. It returns false if the address is not one of
// the pool.
func leaseOf(a state.Attachment, p cniconf.Pool, address netip.Addr) (Lease, bool) {
	l := Lease{Address: address, Plugin: hostLocal, Pool: a.Network}
	if p.Shared != nil {
		l.Plugin, l.Pool = "allocnet-ipam", p.Shared.Pool
		if b, ok := p.Shared.BlockOf(address); ok && !p.Shared.IsReserved(address) {
			l.Block = b
		}
	}
	found, err := leases.Read(p.Leases, address.String())
	switch {
	case errors.Is(err, fs.ErrNotExist):
		l.Problem = "there is no lease: another attachment may get the address"
		return l, slices.ContainsFunc(p.Ranges(), func(r cniconf.AddressRange) bool { return r.Subnet.IsValid() && r.Subnet.Contains(address) })
	case err != nil:
		l.Problem = err.Error()
	case found.ID != a.ContainerID || found.Interface != a.Interface && found.Interface != "":
		l.Since, l.Problem = found.Since, fmt.Sprintf("container %q, interface %q has the lease", found.ID, found.Interface)
	default:
		l.Since = found.Since
	}
	return l, true
}
