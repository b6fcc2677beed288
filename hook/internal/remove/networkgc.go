// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package remove

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/containernetworking/cni/libcni"
	"github.com/containernetworking/cni/pkg/types"
	"github.com/containernetworking/cni/pkg/version"

	"github.com/allocnet/allocnet/cleanup"
	"github.com/allocnet/allocnet/cniconf"
	"github.com/allocnet/allocnet/hook/internal/config"
	"github.com/allocnet/allocnet/hook/internal/onrecord"
	"github.com/allocnet/allocnet/hook/internal/operation"
	"github.com/allocnet/allocnet/state"
)

// gcNetworks runs the GC verb of CNI 1.1 on the networks that have it. Nothing is
// attached meanwhile: plugins would remove an attachment that they are not told of.
// Set-ups in flight and new ones have priority, because a GC can be repeated.
func (g *collection) gcNetworks(ctx context.Context) error {
	networks, err := g.collectable()
	if err != nil || len(networks) == 0 {
		return err
	}
	kept, err := g.notDead(ctx)
	if err != nil {
		g.skip(networks, err)
		return nil
	}
	unlock, err := g.env.Store.LockHost(ctx)
	if errors.Is(err, state.ErrAttaching) {
		g.skip(networks, err)
		return nil
	}
	if err != nil {
		return err
	}
	defer unlock()
	valid, err := validAttachments(ctx, g.env)
	if _, isDamaged := errors.AsType[*operation.DamagedRecordError](err); isDamaged {
		g.skip(networks, err)
		return nil
	}
	if err != nil {
		return err
	}
	networks = valid.restrict(networks, kept, g.Skipped)
	ctx, stop := untilAttachmentWaits(ctx, g.env)
	defer stop()
	var errs []error
	for i, network := range networks {
		if errors.Is(context.Cause(ctx), errAttachmentWaits) {
			g.skip(networks[i:], errAttachmentWaits)
			break
		}
		c := g.env.NetworkChain(network)
		err := c.CNI.GCNetworkList(ctx, network.List, &libcni.GCArgs{ValidAttachments: valid[network.Name]})
		err = errors.Join(err, operation.Commit(ctx, &g.env.Config, nil, g.env.Config.Logger, c)[0])
		switch {
		case err == nil:
			g.Networks = append(g.Networks, network.Name)
		case errors.Is(context.Cause(ctx), errAttachmentWaits): // the loop ends with it
			g.skip(networks[i:i+1], errAttachmentWaits)
		default:
			errs = append(errs, fmt.Errorf("GC of network %q: %w", network.Name, err))
		}
	}
	return errors.Join(errs...)
}

// collectable returns the networks whose plugins have GC. Without a directory
// there are none.
func (g *collection) collectable() ([]*cniconf.Network, error) {
	catalog, err := g.env.Config.Catalog()
	if errors.Is(err, cniconf.ErrNoDir) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var networks []*cniconf.Network
	for _, network := range catalog.Networks {
		if !g.request.inScope(network.Name) {
			continue
		}
		if why := noGC(network); why != "" {
			g.Skipped[network.Name] = why
			continue
		}
		networks = append(networks, network)
	}
	return networks, nil
}

func (g *collection) skip(networks []*cniconf.Network, why error) {
	for _, network := range networks {
		g.Skipped[network.Name] = why.Error() + "; the next GC goes on"
	}
}

var errAttachmentWaits = errors.New("interrupted by an attachment that waits")

// untilAttachmentWaits returns a context that ends when an attachment waits for
// the lock that a collection holds.
func untilAttachmentWaits(ctx context.Context, e *operation.Env) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	go func() {
		for config.Sleep(ctx, 20*time.Millisecond) == nil {
			if e.Store.AttachmentWaits() {
				cancel(errAttachmentWaits)
			}
		}
	}()
	return ctx, func() { cancel(nil) }
}

// noGC says why a network is not collected; empty if it is. The attachments of our own plugin are on
// record under the names of other networks, so that no list for this one would have them.
func noGC(n *cniconf.Network) string {
	list := n.List
	switch {
	case n.IsOwn():
		return "its allocations are on record, from which they are collected"
	case list.DisableGC:
		return "the network has disableGC"
	}
	if supported, err := version.GreaterThanOrEqualTo(list.CNIVersion, "1.1.0"); err != nil || !supported {
		return fmt.Sprintf("cniVersion %s has no GC", list.CNIVersion)
	}
	return ""
}

// validList has for each network what its plugins must keep.
type validList map[string][]types.GCAttachment

// restrict adds the owners of objects that are not known to be dead. It returns the networks for
// which the list has all that may live: one that lacks an attachment, or is empty, would have the
// plugins remove what lives.
func (v validList) restrict(networks []*cniconf.Network, kept []cleanup.Decision, skipped map[string]string) []*cniconf.Network {
	for _, d := range kept {
		for _, network := range d.Networks() {
			if d.Owner.Interface != "" {
				v[network] = append(v[network], types.GCAttachment{ContainerID: d.Owner.ContainerID, IfName: d.Owner.Interface})
			}
		}
	}
	return slices.DeleteFunc(networks, func(n *cniconf.Network) bool {
		if len(v[n.Name]) == 0 {
			skipped[n.Name] = "no attachment to it is known to live: without one its plugins would remove all"
			return true
		}
		for _, d := range kept {
			if slices.Contains(d.Networks(), n.Name) && !v.has(n.Name, d.Owner.ContainerID) {
				skipped[n.Name] = fmt.Sprintf("the interface of %s is not known, which may live: %s", d.Owner.ContainerID, d.Reason)
				return true
			}
		}
		return false
	})
}

func (v validList) has(network, containerID string) bool {
	return slices.ContainsFunc(v[network], func(a types.GCAttachment) bool { return a.ContainerID == containerID })
}

// notDead returns the decisions on the objects of owners that are not known to be dead, also those of other
// runtimes. What cannot be listed or looked into is an error.
func (g *collection) notDead(ctx context.Context) ([]cleanup.Decision, error) {
	all := g.request
	all.DryRun, all.Network = true, ""
	report, err := g.leaks(ctx, all, g.live)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(report.Decisions, func(d cleanup.Decision) bool { return d.Leaked || d.Owner.ContainerID == "" }), report.Unknown
}

// validAttachments returns for each network what its plugins must keep: what
// we have on record, and what libcni's cache has from other runtimes or with a
// namespace that still exists. A damaged record, which may lack one, is a
// *DamagedRecordError.
func validAttachments(ctx context.Context, e *operation.Env) (validList, error) {
	valid := validList{}
	for record, err := range e.Store.List(ctx) {
		if err != nil {
			return nil, err
		}
		if len(record.Damaged) > 0 {
			return nil, &operation.DamagedRecordError{Allocation: record.Allocation.ID, Damaged: record.Damaged}
		}
		for _, a := range record.Attachments {
			valid[a.Network] = append(valid[a.Network], types.GCAttachment{ContainerID: a.ContainerID, IfName: a.Interface})
		}
	}
	cached, err := libcni.NewCNIConfigWithCacheDir(nil, e.Config.CacheDir, nil).GetCachedAttachments("")
	if err != nil {
		return nil, fmt.Errorf("read libcni's cache: %w", err)
	}
	for _, entry := range cached {
		if onrecord.ReadMarker(entry.Config).Attachment == nil || e.Config.Namespaces.Exists(entry.NetNS) {
			valid[entry.Network] = append(valid[entry.Network], types.GCAttachment{ContainerID: entry.ContainerID, IfName: entry.IfName})
		}
	}
	return valid, nil
}
