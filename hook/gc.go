// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package hook

import (
	"context"
	"errors"
	"fmt"

	"github.com/containernetworking/cni/libcni"
	"github.com/containernetworking/cni/pkg/types"
	"github.com/containernetworking/cni/pkg/version"

	"github.com/allocnet/allocnet/cniconf"
	"github.com/allocnet/allocnet/internal/netns"
	"github.com/allocnet/allocnet/state"
)

// Collected is what a GC did.
type Collected struct {
	// TornDown are the allocations whose attachments were removed.
	TornDown []string `json:"tornDown"`
	// Networks are those whose plugins were asked to collect.
	Networks []string `json:"networks"`
	// Skipped says for each other network why not.
	Skipped map[string]string `json:"skipped,omitempty"`
}

// GC removes what ended without teardown; see Hook. It goes on past failures
// and joins them.
func (e *Engine) GC(ctx context.Context, live func(id string) bool) (*Collected, error) {
	c := &Collected{Skipped: map[string]string{}}
	ids, err := e.store.IDs()
	if err != nil {
		return c, err
	}
	var errs []error
	for _, id := range ids {
		if live != nil && live(id) {
			continue
		}
		removed, err := e.collect(ctx, id)
		if err != nil {
			errs = append(errs, fmt.Errorf("allocation %s: %w", id, err))
		} else if removed {
			c.TornDown = append(c.TornDown, id)
		}
	}
	return c, errors.Join(append(errs, e.gcNetworks(ctx, c))...)
}

// collect tears an allocation down when its namespace is gone, its set-up was
// cut off (the lock is free, so nobody is at work on it), or an earlier
// teardown did not finish.
func (e *Engine) collect(ctx context.Context, id string) (bool, error) {
	o, err := e.begin(ctx, id)
	if err != nil {
		return false, err
	}
	defer o.end()
	if !o.known() {
		return false, nil
	}
	path, err := o.namespacePath()
	if err != nil {
		return false, err
	}
	if path != "" && o.complete() {
		return false, nil
	}
	return true, o.teardown(ctx)
}

// gcNetworks runs the GC verb of CNI 1.1 on every network.
func (e *Engine) gcNetworks(ctx context.Context, c *Collected) error {
	catalog, err := cniconf.Load(e.config.ConfDir)
	if err != nil {
		return err
	}
	valid, err := e.validAttachments(ctx)
	if err != nil {
		return err
	}
	var errs []error
	for _, network := range catalog.Networks {
		if why := noGC(network.List); why != "" {
			c.Skipped[network.Name] = why
			continue
		}
		err := e.libcni().GCNetworkList(ctx, network.List, &libcni.GCArgs{ValidAttachments: valid[network.Name]})
		if err != nil {
			errs = append(errs, fmt.Errorf("GC of network %q: %w", network.Name, err))
			continue
		}
		c.Networks = append(c.Networks, network.Name)
	}
	return errors.Join(errs...)
}

func noGC(list *libcni.NetworkConfigList) string {
	if list.DisableGC {
		return "the network has disableGC"
	}
	if supported, err := version.GreaterThanOrEqualTo(list.CNIVersion, "1.1.0"); err != nil || !supported {
		return fmt.Sprintf("cniVersion %s has no GC", list.CNIVersion)
	}
	return ""
}

// validAttachments returns for each network what its plugins must keep: what
// we have on record, and what libcni's cache has from other runtimes or with a
// namespace that still exists.
func (e *Engine) validAttachments(ctx context.Context) (map[string][]types.GCAttachment, error) {
	valid := map[string][]types.GCAttachment{}
	for record, err := range e.store.List(ctx) {
		if err != nil {
			return nil, err
		}
		for _, a := range record.Attachments {
			valid[a.Network] = append(valid[a.Network], gcAttachment(record, a))
		}
	}
	cached, err := e.libcni().GetCachedAttachments("")
	if err != nil {
		return nil, fmt.Errorf("read libcni's cache: %w", err)
	}
	for _, entry := range cached {
		if readMarker(entry.Config) == nil || exists(entry.NetNS) {
			valid[entry.Network] = append(valid[entry.Network], types.GCAttachment{ContainerID: entry.ContainerID, IfName: entry.IfName})
		}
	}
	return valid, nil
}

func gcAttachment(r state.Record, a state.Attachment) types.GCAttachment {
	return types.GCAttachment{ContainerID: r.Allocation.ID, IfName: a.Interface}
}

func exists(path string) bool {
	ns, err := netns.Open(path)
	if err != nil {
		return !errors.Is(err, netns.ErrMissing) // what cannot be looked at is kept
	}
	_ = ns.Close() // only looked at
	return true
}
