// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package cleanup

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/hashicorp/go-hclog"

	"github.com/allocnet/allocnet/internal/netns"
	"github.com/allocnet/allocnet/state"
)

// Cleaner removes the objects that attachments of allocations left. It is the engine's
// hook.Cleaner.
type Cleaner struct {
	// CacheDir is libcni's. Default: /var/lib/cni.
	CacheDir string
	// Logger gets a line for each object that is removed. Default: none.
	Logger hclog.Logger

	// host is what is cleaned. Default: this one.
	host *host
}

// Clean removes the objects of the attachments that the catalogue knows: rules,
// leases, links, files. It scans the host once for all allocations, and
// returns an error for each. Where DEL failed, plugins that the catalogue does not
// know are an error, because nothing can say what they left. Repeated it finds
// nothing to do.
func (c *Cleaner) Clean(ctx context.Context, leftovers []state.Leftover) []error {
	s := scanner{cacheDir: c.CacheDir, host: c.host.orDefault()}
	var flows []flow
	wanted := map[string]bool{}
	s.wanted = func(chain string) bool { return wanted[chain] }
	for _, leftover := range leftovers {
		attachments := leftover.Record().Attachments
		for _, a := range attachments {
			s.confLists = append(s.confLists, a.ConfList)
			s.known = append(s.known, ownerOf(a.Network, a.ContainerID, a.Interface))
			for _, chain := range s.host.catalog.chainsOf(a) {
				wanted[chain] = true
			}
		}
		flows = append(flows, published(attachments)...)
	}
	found, _ := s.scan(ctx) // the error is what is unlisted
	for _, p := range found.Problems {
		c.log().Warn("skipped", "path", p.Where, "reason", p.Reason)
	}
	found.Objects = append(found.Objects, s.host.sourcesOf(ctx, leftovers)...)
	found.look = func() []Failure { return s.host.stillLeft(ctx, leftovers) }
	objects, useErr := found.objectsOf(leftovers)
	failures := found.remove(ctx, objects)
	for _, o := range objects {
		c.log().Info("removed by force", "kind", o.Kind, "object", o.Where, "allocation", o.Owner.Allocation)
	}
	return s.host.catalog.outcomes(leftovers, failures, errors.Join(found.unlisted, useErr, deleteFlows(ctx, s.host.kernel, flows)))
}

func (c catalog) outcomes(leftovers []state.Leftover, failures []Failure, shared error) []error {
	failed := map[string][]error{}
	for _, f := range failures {
		if f.Owner.Allocation == "" {
			shared = errors.Join(shared, f)
		}
		failed[f.Owner.Allocation] = append(failed[f.Owner.Allocation], f)
	}
	errs := make([]error, len(leftovers))
	for i, l := range leftovers {
		errs[i] = errors.Join(shared, errors.Join(failed[l.Allocation.ID]...), c.unknownPlugins(l.Suspects))
	}
	return errs
}

// Covers tells whether the catalogue has all plugins of an attachment.
func (c *Cleaner) Covers(a state.Attachment) bool {
	known := c.host.orDefault().catalog
	types := pluginTypes(a)
	return len(types) > 0 && !slices.ContainsFunc(types, func(name string) bool { return !known.has(name) })
}

func (c *Cleaner) log() hclog.Logger {
	if c.Logger == nil {
		return hclog.NewNullLogger()
	}
	return c.Logger
}

// objectsOf returns the objects of the attachments, the interfaces first. What of these cannot be looked for is unlisted, too.
func (f *scanResult) objectsOf(dead []state.Leftover) ([]Object, error) {
	var objects []Object
	byContainer := map[string][]state.Attachment{}
	addresses := map[netip.Addr]Owner{}
	for _, leftover := range dead {
		ns, err := state.OpenNamespace(leftover.Allocation, f.host.orDefault().kernel.open)
		switch {
		case err == nil:
			_ = ns.Close() // only looked for
		case !errors.Is(err, netns.ErrMissing): // it may have the interfaces
			f.unlisted = errors.Join(f.unlisted, err)
		}
		for _, suspect := range leftover.Suspects {
			a := suspect.Attachment
			byContainer[a.ContainerID] = append(byContainer[a.ContainerID], a)
			links, linksErr := f.host.orDefault().linksOf(leftover.Allocation, a, err == nil && !suspect.Replaced)
			objects, f.unlisted = append(objects, links...), errors.Join(f.unlisted, linksErr)
			for _, address := range resultAddresses(a.Result) {
				addresses[address] = ownerOf(a.Network, a.ContainerID, a.Interface)
			}
		}
	}
	for _, o := range f.Objects {
		if o.Kind == ResolvConf { // the engine removes it with the namespace
			continue
		}
		if !slices.ContainsFunc(byContainer[o.Owner.ContainerID], func(a state.Attachment) bool { return o.Owner.matches(a) }) {
			continue
		}
		objects = append(objects, o)
		for _, address := range o.Addresses {
			addresses[address] = o.Owner
		}
	}
	rules, err := f.addressRules(dead, addresses)
	return append(objects, rules...), err
}

// matches tells whether the owner can be the attachment. Another attachment, or
// another runtime's, has another container ID or another network. An owner
// without a container ID matches none.
func (o Owner) matches(a state.Attachment) bool {
	return o.ContainerID != "" && o.ContainerID == a.ContainerID && (o.Network == "" || o.Network == a.Network) && (o.Interface == "" || o.Interface == a.Interface)
}

// addressRules returns the rules of the addresses, which were the attachments',
// unless an address is in use in another namespace by now.
func (f *scanResult) addressRules(dead []state.Leftover, addresses map[netip.Addr]Owner) ([]Object, error) {
	var rules []Object
	for _, o := range f.Objects {
		if !o.addressOnly {
			continue
		}
		if owner, ok := addresses[o.Addresses[0]]; ok {
			o.Owner = owner
			rules = append(rules, o)
		}
	}
	if len(rules) == 0 {
		return nil, nil
	}
	own := map[uint64]bool{}
	for _, leftover := range dead {
		ns, err := state.OpenNamespace(leftover.Allocation, f.host.orDefault().kernel.open)
		if err != nil { // it is missing, or none of those that can be looked into
			continue
		}
		defer ns.Close() //nolint:errcheck // only read; its inode is not used again before that
		own[ns.Inode()] = true
	}
	places, err := f.host.orDefault().kernel.namespaces()
	if err != nil {
		return nil, fmt.Errorf("find the namespaces that use the addresses: %w", err)
	}
	inUse := map[netip.Addr]bool{}
	for _, place := range places {
		for _, address := range place.Addresses {
			inUse[address] = inUse[address] || !own[place.Inode]
		}
	}
	return slices.DeleteFunc(rules, func(o Object) bool { return inUse[o.Addresses[0]] }), nil
}

func published(attachments []state.Attachment) []flow {
	var flows []flow
	for _, a := range attachments {
		data, err := json.Marshal(a.CapabilityArgs["portMappings"])
		if err != nil {
			continue // it came from JSON
		}
		var mappings []struct {
			HostPort     uint16
			LastHostPort uint16
			Protocol     string
		}
		if json.Unmarshal(data, &mappings) != nil {
			continue // so the plugin could not read it either
		}
		for _, m := range mappings {
			if strings.EqualFold(m.Protocol, "udp") {
				for _, address := range resultAddresses(a.Result) {
					flows = append(flows, flow{m.HostPort, max(m.HostPort, m.LastHostPort), address})
				}
			}
		}
	}
	return flows
}
