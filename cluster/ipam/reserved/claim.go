// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package reserved

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/allocnet/allocnet/cluster/ipam"
)

// quiet is for how long an address that another host has given back is not taken: its
// interface may still be there.
const quiet = 5 * time.Second

// claim is a request's for one address.
type claim struct {
	s       *session
	address netip.Addr
	ipam.Request
	// isNew is whether the key or the job has one more address. It is not kept before confirm.
	isNew bool
	// evicts is whether an address that is kept for another key may be taken.
	evicts bool
}

func sameJob(one, other ipam.Job) bool {
	return one.Namespace == other.Namespace && one.Job == other.Job
}

func isKept(c ipam.AddressContent) bool { return c.Reserved || c.Job.Key != "" }

// take takes one address, unless it is another's. What is remembered of an entry is not enough: in a store
// that was restored, another's may have its index.
func (c *claim) take(ctx context.Context) error {
	if _, err := c.s.view.reread(ctx, c.address); err != nil {
		return err
	}
	for range attempts {
		if err := c.mayTake(ctx); err != nil {
			return err
		}
		c.isNew = c.isNew || c.isMore()
		done, err := c.write(ctx)
		if done && c.isNew {
			c.s.unconfirmed = append(c.s.unconfirmed, c.address)
		}
		if err != nil || done {
			return err
		}
	}
	return &BusyError{Address: c.address, Reason: "other hosts change its entry all the time"}
}

// isMore returns whether an address is one more of those that a key or a job has. An earlier attempt of
// this host may have taken it, and not have confirmed it: its request may have been late.
func (c *claim) isMore() bool {
	r := c.s.records[c.address]
	switch {
	case r != nil && r.Drop:
		return true
	case len(c.Addresses) > 0:
		return c.isLimited()
	}
	return !c.s.view.at(c.address).isFor(c.Job, ipam.FamilyOf(c.address))
}

func (c *claim) mayTake(ctx context.Context) error {
	leased, ok, err := c.s.a.o.Leases.Owner(ctx, c.address)
	if err != nil {
		return err
	}
	if ok && leased != c.Owner {
		return c.leasedHere(leased)
	}
	e, settling := c.s.view.at(c.address), c.s.view.settling()
	switch {
	case settling > 0:
		return &BusyError{Address: c.address, Reason: "the store was restored from a snapshot, and other hosts need time to say what they hold", wait: settling}
	case e.err != nil:
		return &RefusedError{c.address, "its entry in the store cannot be read: " + e.err.Error()}
	case e.index == 0 && !e.missing.IsZero():
		return &BusyError{Address: c.address, Reason: "its entry has vanished from the store, and its holder needs time to restore it", wait: settle - c.s.now.age(e.missing)}
	}
	if err := c.mayHave(e); err != nil {
		return err
	}
	if err := c.left(ctx, e); err != nil {
		return err
	}
	return c.belowLimit()
}

// leasedHere returns why the address of another attachment of this host cannot be taken.
func (c *claim) leasedHere(leased ipam.Owner) error {
	if leased.ContainerID == c.Owner.ContainerID {
		return &RefusedError{c.address, "interface " + leased.Interface + " of the same container has it: request another address for " + c.Owner.Interface}
	}
	r := c.s.records[c.address]
	if r != nil && r.Content.Owner == leased && c.Job.Allocation != "" && r.Content.Job.Allocation == c.Job.Allocation {
		return &RefusedError{c.address, "interface " + leased.Interface + " of the same allocation has it: use another key, or request another address, for " + c.Owner.Interface}
	}
	if r != nil && r.Content.Owner == leased && sameJob(r.Content.Job, c.Job) {
		return &BusyError{Address: c.address, Reason: "container " + leased.ContainerID + " of the same job has it on this host"}
	}
	return &RefusedError{c.address, "another container has it on this host"}
}

// mayHave returns whether an address is kept for others.
func (c *claim) mayHave(e *entry) error {
	kept := e.content.Job
	isEvictable := c.evicts && e.isFree() && !e.content.Reserved && c.s.now.age(e.content.Freed) >= c.s.a.o.Config.Cooldown
	switch {
	case e.index == 0 || !isKept(e.content), isEvictable:
		return nil
	case kept.Namespace != c.Job.Namespace:
		return &RefusedError{c.address, "it is kept for a job of another namespace"}
	case kept.Job != c.Job.Job:
		return &RefusedError{c.address, fmt.Sprintf("it is kept for job %q, this is job %q", kept.Job, c.Job.Job)}
	case e.content.Reserved && kept.Group != "" && kept.Group != c.Job.Group:
		return &RefusedError{c.address, fmt.Sprintf("it is reserved for group %q of job %q, this is group %q", kept.Group, kept.Job, c.Job.Group)}
	}
	return nil
}

// left returns whether the last holder of an address has left it.
func (c *claim) left(ctx context.Context, e *entry) error {
	s, age := c.s, c.s.now.age(e.content.Freed)
	switch {
	case e.index == 0:
		return nil
	case e.isHeld() && e.content.Host.Instance == s.host.Instance:
		return c.leftHere(ctx, e)
	case e.isHeld():
		return c.leftElsewhere(ctx, e)
	case e.content.Host.Instance == s.host.Instance && e.content.Host.Boot == s.host.Boot, e.content.Published, age >= quiet:
		return nil // what this machine has taken in this boot, and what was published, was given back when nothing had it any more
	}
	return &BusyError{Address: c.address, Reason: "another host has given it back a moment ago", wait: quiet - age}
}

// leftHere is left for an address of this host without a lease. One without a record was taken
// by a late request of a killed process, or belongs to a state that was restored from a
// snapshot: then another host may have it, and needs time to say so.
func (c *claim) leftHere(ctx context.Context, e *entry) error {
	s, r := c.s, c.s.records[c.address]
	if r != nil && !s.mayChange(r) {
		return &BusyError{Address: c.address, Reason: "this host had it before it booted, a moment ago, and may be a copy of another one that has it"}
	}
	if r != nil && r.Content.ClaimID == e.content.ClaimID && (r.Released.IsZero() || r.Released.After(s.view.memory.Restored)) {
		return nil
	}
	if s.isNew {
		return &BusyError{Address: c.address, Reason: "this host holds it without knowing, and has booted a moment ago"}
	}
	if err := s.freeUnknown(ctx, c.address, e); err != nil {
		return err
	}
	return &BusyError{Address: c.address, Reason: "this host held it without knowing, and has given it back"}
}

// leftElsewhere is left for an address of another host.
func (c *claim) leftElsewhere(ctx context.Context, e *entry) error {
	s := c.s
	if s.isOwnNode(e) && e.content.Host.Boot == s.host.Boot && e.content.Owner == c.Owner {
		return nil // the state directory was lost, and the container is set up again
	}
	ended, err := s.ended(ctx, e)
	switch {
	case ended && err == nil:
		return nil
	case sameJob(e.content.Job, c.Job) && e.content.Published:
		reason := fmt.Sprintf("it is published on node %q for container %s: that host gives it back when the container ends; if the node is gone: allocnet ipam release --node %s", e.content.Host.NodeName, e.content.Owner.ContainerID, e.content.Host.NodeID)
		return &BusyError{Address: c.address, Reason: reason, Err: err}
	case sameJob(e.content.Job, c.Job):
		reason := fmt.Sprintf("container %s on node %q has it, and its allocation is neither complete nor failed for %s", e.content.Owner.ContainerID, e.content.Host.NodeName, quiet)
		return &BusyError{Address: c.address, Reason: reason, Err: err}
	case e.content.Job.Namespace == c.Job.Namespace:
		return &RefusedError{c.address, fmt.Sprintf("job %q has it", e.content.Job.Job)}
	}
	return &RefusedError{c.address, "a job of another namespace has it"}
}

func (s *session) isOwnNode(e *entry) bool {
	return s.host.NodeID != "" && e.content.Host.NodeID == s.host.NodeID
}

// ended returns whether Nomad says that the holder has left an address.
func (s *session) ended(ctx context.Context, e *entry) (bool, error) {
	if s.a.o.Holder == nil {
		return false, nil
	}
	if e.content.Job.Allocation != "" && !e.content.Published { // an interface of a host outlives allocations
		since, err := s.a.o.Holder.Ended(ctx, e.content.Job.Namespace, e.content.Job.Allocation)
		if err != nil || !since.IsZero() && s.now.age(since) >= quiet {
			return err == nil, err
		}
	}
	return s.isGone(ctx, e.content.Host)
}

// isLimited returns whether the address would be one more of those that the limit counts.
func (c *claim) isLimited() bool {
	e := c.s.view.at(c.address)
	return c.s.a.o.Config.MaxReservedPerJob > 0 && c.Job.Job != "" && !e.content.Reserved && (e.index == 0 || !sameJob(e.content.Job, c.Job))
}

// belowLimit returns whether the job may have one more address. Another host may take one for
// it at the same time: confirm looks again.
func (c *claim) belowLimit() error {
	limit, count := c.s.a.o.Config.MaxReservedPerJob, c.s.view.countOf(c.Job)
	if !c.isLimited() || count < limit {
		return nil
	}
	return fmt.Errorf("%w: job %q has %d reserved addresses already, and maxReservedPerJob is %d: stop allocations of it, or let an operator unreserve some",
		ipam.ErrInvalid, c.Job.Job, count, limit)
}

// write takes an address: on record first, then in the store, then by a lease. It returns
// false if the entry is not as it was read.
func (c *claim) write(ctx context.Context) (bool, error) {
	s, e, old := c.s, c.s.view.at(c.address), c.s.records[c.address]
	r := &record{State: taking, Drop: c.isNew, Content: c.content(e)}
	if err := s.mustPut(ctx, c.address, r); err != nil {
		return false, err
	}
	index, err := s.view.save(ctx, r.Content, e.index)
	switch {
	case err == nil:
		return true, c.lease(ctx, r, index)
	case errors.Is(err, errOvertaken):
		return false, s.mustPut(ctx, c.address, nil)
	case errors.Is(err, ipam.ErrRefused): // nothing was done
		return false, errors.Join(err, s.mustPut(ctx, c.address, old))
	}
	return false, fmt.Errorf("take reserved address %s: %w", c.address, err)
}

// content is what the entry of the address says when the claimant has it.
func (c *claim) content(e *entry) ipam.AddressContent {
	content := ipam.AddressContent{Pool: c.s.a.o.Config.Pool, Address: c.address, State: ipam.Held, Host: c.s.host,
		ClaimID: newClaim(), Owner: c.Owner, Job: c.Job, Reserved: e.content.Reserved, Published: c.Published}
	if kept := e.content.Job; content.Reserved && (kept.Key != "" || c.Job.Key == "") {
		content.Job.Group, content.Job.Key = kept.Group, kept.Key // what the operator said stays
	}
	return content
}

// lease makes the lease of the address that was taken, and notes that it is held.
func (c *claim) lease(ctx context.Context, r *record, index uint64) error {
	leases := c.s.a.o.Leases
	if err := leases.Add(ctx, c.address, c.Owner); err != nil {
		return err
	}
	err := c.s.mustPut(ctx, c.address, r.heldAt(index, r.Content))
	if err != nil {
		return errors.Join(err, leases.Remove(ctx, c.address, c.Owner))
	}
	return nil
}
