// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package cleanup

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"reflect"
	"time"

	"github.com/allocnet/allocnet/cniconf"
	"github.com/allocnet/allocnet/internal/netns"
	"github.com/allocnet/allocnet/state"
)

type recordedAllocation struct {
	// dead says why it is dead; empty when it lives.
	dead string
	// unknown says why it cannot be told; it counts as living then.
	unknown string
	// lost is whether that is because of damage that has left no namespace and no attachment.
	lost bool
	// addresses are those that it was given.
	addresses []netip.Addr
	// inode is that of its namespace; 0 if it has none.
	inode uint64
}

// recordSet has the networks and allocations that allocnet knows. It is read after
// the scan, so it has the allocations that were set up meanwhile.
type recordSet struct {
	// networks are those of the CNI configuration directory and of recorded
	// allocations. Objects of other networks are kept.
	networks map[string]bool
	// orchestrated tells whether the orchestrator attached the owner itself: for
	// those the live set is complete. Nil: none.
	orchestrated func(Owner) bool
	// allocations are those on record, by ID.
	allocations map[string]recordedAllocation
	// ended are the allocations whose records were removed during the scan: what it found
	// of them may be gone. Nil: none.
	ended map[string]bool
	// grace keeps allocations with objects that are younger: another program that is
	// about to attach has a lease first. Zero: no grace period.
	grace time.Duration
	// now is when the records were read.
	now time.Time
}

// isOrchestrated tells whether the orchestrator whose live set is queried attached the owner.
func (r recordSet) isOrchestrated(o Owner) bool { return r.orchestrated != nil && r.orchestrated(o) }

// isRecent tells whether an object was made within the grace period.
func (r recordSet) isRecent(o Object) bool {
	return r.now.Sub(o.Created).Abs() < r.grace
}

// isFuture tells whether the clock was set back since an object was made, by so much that
// its time is no proof that it is recent: it would be so until the clock has caught up.
func (r recordSet) isFuture(o Object) bool {
	return r.grace > 0 && o.Created.Sub(r.now) >= r.grace
}

// logFuture says of which objects the grace period does not hold because of the clock.
func (c *Collector) logFuture(leaked []Decision, records recordSet) {
	for _, v := range leaked {
		if c.Logger != nil && records.isFuture(v.Object) {
			c.Logger.Warn("the clock was set back: the grace period does not hold for an object from the future",
				"object", v.Where, "allocation", v.Owner.Allocation, "time", v.Created)
		}
	}
}

// scanner returns one that knows the directories and owners of the CNI configuration
// directories and the records, and the IDs of these.
func (c *Collector) scanner(ctx context.Context) (s scanner, recorded []string, err error) {
	s = scanner{cacheDir: c.CacheDir, host: c.host}
	catalog, err := c.networks()
	if err != nil {
		return s, nil, err
	}
	for _, network := range catalog.Networks {
		s.confLists = append(s.confLists, network.List.Bytes)
	}
	for record, err := range c.Store.List(ctx) {
		if unreadable, ok := errors.AsType[*state.UnreadableError](err); ok {
			recorded = append(recorded, unreadable.ID)
			continue
		}
		if err != nil {
			return s, nil, err
		}
		recorded = append(recorded, record.Allocation.ID)
		for _, a := range record.Attachments {
			s.confLists = append(s.confLists, a.ConfList)
			s.known = append(s.known, ownerOf(a.Network, a.ContainerID, a.Interface))
		}
	}
	return s, recorded, nil
}

// networks returns those of the directories that exist. Which of two with the same
// name takes precedence does not matter here.
func (c *Collector) networks() (*cniconf.Catalog, error) {
	catalog := &cniconf.Catalog{Dirs: c.ConfDirs}
	for _, dir := range c.ConfDirs {
		part, err := cniconf.Load(dir)
		if errors.Is(err, cniconf.ErrNoDir) {
			continue
		}
		if err != nil {
			return nil, err
		}
		catalog.Networks = append(catalog.Networks, part.Networks...)
		catalog.Broken = append(catalog.Broken, part.Broken...)
	}
	return catalog, nil
}

// records reads the networks and records, after the scan. An allocation whose
// record cannot be read counts as live. before are the IDs on record before the scan.
func (c *Collector) records(ctx context.Context, before []string) (recordSet, error) {
	r := recordSet{networks: map[string]bool{}, allocations: map[string]recordedAllocation{}, ended: map[string]bool{}, orchestrated: c.Orchestrated, grace: c.Grace, now: time.Now()}
	catalog, err := c.networks()
	if err != nil {
		return r, err
	}
	for _, network := range catalog.Networks {
		r.networks[network.Name] = true
	}
	for record, err := range c.Store.List(ctx) {
		if unreadable, ok := errors.AsType[*state.UnreadableError](err); ok {
			r.allocations[unreadable.ID] = recordedAllocation{unknown: unreadable.Error()}
			continue
		}
		if err != nil {
			return r, err
		}
		r.allocations[record.Allocation.ID] = c.recorded(record)
		for _, a := range record.Attachments {
			r.networks[a.Network] = true
		}
	}
	for _, id := range before {
		_, known := r.allocations[id]
		r.ended[id] = !known
	}
	return r, nil
}

// forget has an allocation whose record is lost count as one that is not on record.
func (r recordSet) forget(id string) {
	if r.allocations[id].lost {
		delete(r.allocations, id)
	}
}

// recorded tells whether an allocation on record is live: its set-up is complete and
// its namespace exists, or another process holds its lock. With a damaged record
// that is unknown, unless a readable line proves that the namespace is gone.
func (c *Collector) recorded(record state.Record) recordedAllocation {
	var r recordedAllocation
	dead := ""
	for _, a := range record.Attachments {
		r.addresses = append(r.addresses, resultAddresses(a.Result)...)
		switch {
		case a.Batch.Kind != state.BatchSetup: // added to an allocation that is set up
		case a.Phase == state.Adding:
			dead = "its set-up was interrupted"
		case a.Phase != state.Attached:
			dead = "its teardown did not finish"
		}
	}
	ns, err := state.OpenNamespace(record.Allocation, c.host.orDefault().kernel.open)
	if err == nil {
		r.inode = ns.Inode()
		_ = ns.Close() // only read
	}
	if errors.Is(err, netns.ErrMissing) {
		dead = err.Error()
	}
	switch damaged := len(record.Damaged) > 0; {
	case damaged && record.Allocation.Netns == "":
		r.unknown, r.lost = "its record is damaged: "+record.Damaged[0].String(), len(record.Attachments) == 0
		return r
	case damaged && !errors.Is(err, netns.ErrMissing):
		r.unknown = fmt.Sprintf("its record is damaged (%s), and its namespace is %s", record.Damaged[0], record.Allocation.Netns)
		return r
	}
	if dead != "" && c.isUnchanged(record) {
		r.dead = dead
	}
	return r
}

// isUnchanged tells whether no operation on the allocation is in flight, and none
// has ended since its record was read: what was found after that may be what a
// teardown has removed.
func (c *Collector) isUnchanged(record state.Record) bool {
	lock, err := c.Store.TryLock(record.Allocation.ID)
	if err != nil {
		return false
	}
	defer lock.Unlock()
	now, err := lock.Load()
	return err == nil && reflect.DeepEqual(now, record)
}
