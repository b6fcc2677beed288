// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package hook

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/containernetworking/cni/libcni"
	"github.com/containernetworking/cni/pkg/types"
	"github.com/containernetworking/cni/pkg/version"
	"golang.org/x/sync/errgroup"

	"github.com/allocnet/allocnet/cniconf"
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
	// Postponed says for each allocation whose teardown failed before, and is not
	// due again yet, when it is.
	Postponed map[string]string `json:"postponed,omitempty"`
}

// GC garbage-collects allocations; see Hook. It goes on past failures
// and joins them.
func (e *Engine) GC(ctx context.Context, live func(id string) bool, networks ...string) (*Collected, error) {
	c := &Collected{Skipped: map[string]string{}, Postponed: map[string]string{}}
	if err := e.cleanBoot(ctx); err != nil {
		e.log.Warn("what earlier boots left is not removed yet", "error", err)
	}
	ids, err := e.store.IDs()
	if err != nil {
		return c, err
	}
	if live != nil {
		ids = slices.DeleteFunc(ids, live)
	}
	scope := func(network string) bool { return len(networks) == 0 || slices.Contains(networks, network) }
	err = e.collectAll(ctx, ids, scope, c)
	return c, errors.Join(err, e.gcNetworks(ctx, scope, c))
}

// collectAll collects several allocations at a time.
func (e *Engine) collectAll(ctx context.Context, ids []string, scope func(network string) bool, c *Collected) error {
	var group errgroup.Group
	group.SetLimit(maxTeardowns)
	torn := make([]bool, len(ids))
	next := make([]time.Time, len(ids))
	errs := make([]error, len(ids))
	for i, id := range ids {
		group.Go(func() error {
			torn[i], next[i], errs[i] = e.collect(ctx, id, scope)
			return nil
		})
	}
	_ = group.Wait() // errors are in errs: all are wanted
	for i, id := range ids {
		switch {
		case errs[i] != nil:
			errs[i] = fmt.Errorf("allocation %s: %w", id, errs[i])
		case torn[i]:
			c.TornDown = append(c.TornDown, id)
		case !next[i].IsZero():
			c.Postponed[id] = "its teardown failed: the next attempt is due after " + next[i].UTC().Format(time.RFC3339)
		}
	}
	return errors.Join(errs...)
}

// lockPatience is how long GC waits for an allocation's lock: a child that a killed
// process had just forked holds it until it executes its program.
const lockPatience = time.Second

// collect tears an allocation down when its namespace is gone, its set-up was
// interrupted (the lock is free, so no call is in flight), an earlier teardown did
// not finish, or what it was made for is gone. Of one that stands it removes what a
// later call left half attached or half detached. One that is locked is left to the
// next GC, and so is a teardown that failed; next is when it is due again, zero if
// nothing is postponed.
func (e *Engine) collect(ctx context.Context, id string, scope func(network string) bool) (torn bool, next time.Time, err error) {
	waiting, stop := context.WithTimeoutCause(ctx, lockPatience, state.ErrLocked)
	defer stop()
	o, err := e.begin(waiting, id)
	if errors.Is(err, state.ErrLocked) {
		return false, next, nil
	}
	if err != nil {
		return false, next, err
	}
	defer o.end()
	if !o.hasRecord() { // killed after the directory was made or before it was removed
		return false, next, o.lock.Clear()
	}
	inScope := slices.ContainsFunc(o.record.Attachments, func(a state.Attachment) bool { return scope(a.Network) })
	if !inScope && len(o.record.Attachments) > 0 {
		return false, next, nil
	}
	if now := time.Now(); !due(o.record, now) {
		return false, nextAttempt(o.record, now), nil
	}
	torn, err = o.recoverOrphan(ctx)
	return torn, next, err
}

// recoverOrphan is tidy, and a teardown of what was made for something that is gone.
func (o *operation) recoverOrphan(ctx context.Context) (torn bool, err error) {
	if torn, err := o.recoverInterrupted(ctx); torn || err != nil || o.isUnknown() {
		return torn, err
	}
	if gone, err := o.ownerGone(ctx); !gone || err != nil {
		return false, err
	}
	return true, o.teardown(ctx)
}

// ownerGone is asked under the allocation's lock: nothing else makes the same
// allocation meanwhile.
func (o *operation) ownerGone(ctx context.Context) (bool, error) {
	if o.config.OwnerGone == nil || o.record.Allocation.Owner == "" {
		return false, nil
	}
	return o.config.OwnerGone(ctx, o.record.Allocation.Owner)
}

// gcNetworks runs the GC verb of CNI 1.1 on the networks that have it. Nothing is
// attached meanwhile: the plugins would take it for something that nothing needs.
// What is in flight goes first, and so does what comes: a GC can be repeated.
func (e *Engine) gcNetworks(ctx context.Context, scope func(network string) bool, c *Collected) error {
	networks, err := e.collectable(scope, c)
	if err != nil || len(networks) == 0 {
		return err
	}
	unlock, err := e.store.LockHost(ctx)
	if errors.Is(err, state.ErrAttaching) {
		c.skip(networks, err)
		return nil
	}
	if err != nil {
		return err
	}
	defer unlock()
	valid, err := e.validAttachments(ctx)
	var damaged *DamagedRecordError
	if errors.As(err, &damaged) {
		c.skip(networks, err)
		return nil
	}
	if err != nil {
		return err
	}
	ctx, stop := e.untilAttachmentWaits(ctx)
	defer stop()
	var errs []error
	for i, network := range networks {
		if errors.Is(context.Cause(ctx), errAttachmentWaits) {
			c.skip(networks[i:], errAttachmentWaits)
			break
		}
		err := e.libcni().GCNetworkList(ctx, network.List, &libcni.GCArgs{ValidAttachments: valid[network.Name]})
		switch {
		case err == nil:
			c.Networks = append(c.Networks, network.Name)
		case errors.Is(context.Cause(ctx), errAttachmentWaits): // the loop ends with it
			c.skip(networks[i:i+1], errAttachmentWaits)
		default:
			errs = append(errs, fmt.Errorf("GC of network %q: %w", network.Name, err))
		}
	}
	return errors.Join(errs...)
}

// collectable returns the networks whose plugins have GC. Without a directory
// there are none.
func (e *Engine) collectable(scope func(network string) bool, c *Collected) ([]*cniconf.Network, error) {
	catalog, err := e.Catalog()
	if errors.Is(err, cniconf.ErrNoDir) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var networks []*cniconf.Network
	for _, network := range catalog.Networks {
		if !scope(network.Name) {
			continue
		}
		if why := noGC(network.List); why != "" {
			c.Skipped[network.Name] = why
			continue
		}
		networks = append(networks, network)
	}
	return networks, nil
}

func (c *Collected) skip(networks []*cniconf.Network, why error) {
	for _, network := range networks {
		c.Skipped[network.Name] = why.Error() + "; the next GC goes on"
	}
}

var errAttachmentWaits = errors.New("interrupted by an attachment that waits")

// untilAttachmentWaits returns a context that ends when an attachment waits for
// the lock that a collection holds.
func (e *Engine) untilAttachmentWaits(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	go func() {
		for sleep(ctx, 20*time.Millisecond) == nil {
			if e.store.AttachmentWaits() {
				cancel(errAttachmentWaits)
			}
		}
	}()
	return ctx, func() { cancel(nil) }
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
// namespace that still exists. A damaged record, which may lack one, is a
// *DamagedRecordError.
func (e *Engine) validAttachments(ctx context.Context) (map[string][]types.GCAttachment, error) {
	valid := map[string][]types.GCAttachment{}
	for record, err := range e.store.List(ctx) {
		if err != nil {
			return nil, err
		}
		if len(record.Damaged) > 0 {
			return nil, &DamagedRecordError{Allocation: record.Allocation.ID, Damaged: record.Damaged}
		}
		for _, a := range record.Attachments {
			valid[a.Network] = append(valid[a.Network], types.GCAttachment{ContainerID: a.ContainerID, IfName: a.Interface})
		}
	}
	cached, err := e.libcni().GetCachedAttachments("")
	if err != nil {
		return nil, fmt.Errorf("read libcni's cache: %w", err)
	}
	for _, entry := range cached {
		if readMarker(entry.Config).Attachment == nil || e.config.Namespaces.Exists(entry.NetNS) {
			valid[entry.Network] = append(valid[entry.Network], types.GCAttachment{ContainerID: entry.ContainerID, IfName: entry.IfName})
		}
	}
	return valid, nil
}
