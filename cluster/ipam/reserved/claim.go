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

// errOvertaken is an entry that is not as it was read: the write was not made.
var errOvertaken = errors.New("another host has changed the entry")

// claimant is for whom an address is taken.
type claimant struct {
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
func (s *session) take(ctx context.Context, address netip.Addr, c claimant) error {
	if _, err := s.reread(ctx, address); err != nil {
		return err
	}
	for range attempts {
		if err := s.mayTake(ctx, address, c); err != nil {
			return err
		}
		c.isNew = c.isNew || s.isMore(address, c.Request)
		done, err := s.write(ctx, address, c)
		if done && c.isNew {
			s.unconfirmed = append(s.unconfirmed, address)
		}
		if err != nil || done {
			return err
		}
	}
	return &BusyError{Address: address, Reason: "other hosts change its entry all the time"}
}

// isMore returns whether an address is one more of those that a key or a job has. An earlier attempt of
// this host may have taken it, and not have confirmed it: its request may have been late.
func (s *session) isMore(address netip.Addr, request ipam.Request) bool {
	r := s.records[address]
	switch {
	case r != nil && r.Drop:
		return true
	case len(request.Addresses) > 0:
		return s.isLimited(address, request.Job)
	}
	return !s.view.at(address).isFor(request.Job, ipam.FamilyOf(address))
}

func (s *session) mayTake(ctx context.Context, address netip.Addr, c claimant) error {
	leased, ok, err := s.a.o.Leases.Owner(ctx, address)
	if err != nil {
		return err
	}
	if ok && leased != c.Owner {
		return s.leasedHere(address, leased, c)
	}
	e := s.view.at(address)
	switch {
	case s.settling() > 0:
		return &BusyError{Address: address, Reason: "the store was restored from a snapshot, and other hosts need time to say what they hold", wait: s.settling()}
	case e.err != nil:
		return &RefusedError{address, "its entry in the store cannot be read: " + e.err.Error()}
	case e.index == 0 && !e.missing.IsZero():
		return &BusyError{Address: address, Reason: "its entry has vanished from the store, and its holder needs time to restore it", wait: settle - s.age(e.missing)}
	}
	if err := s.mayHave(address, e, c); err != nil {
		return err
	}
	if err := s.left(ctx, address, e, c); err != nil {
		return err
	}
	return s.belowLimit(address, c)
}

// leasedHere returns why the address of another attachment of this host cannot be taken.
func (s *session) leasedHere(address netip.Addr, leased ipam.Owner, c claimant) error {
	if leased.ContainerID == c.Owner.ContainerID {
		return &RefusedError{address, "interface " + leased.Interface + " of the same container has it: request another address for " + c.Owner.Interface}
	}
	r := s.records[address]
	if r != nil && r.Content.Owner == leased && c.Job.Allocation != "" && r.Content.Job.Allocation == c.Job.Allocation {
		return &RefusedError{address, "interface " + leased.Interface + " of the same allocation has it: use another key, or request another address, for " + c.Owner.Interface}
	}
	if r != nil && r.Content.Owner == leased && sameJob(r.Content.Job, c.Job) {
		return &BusyError{Address: address, Reason: "container " + leased.ContainerID + " of the same job has it on this host"}
	}
	return &RefusedError{address, "another container has it on this host"}
}

// mayHave returns whether an address is kept for others.
func (s *session) mayHave(address netip.Addr, e *entry, c claimant) error {
	kept := e.content.Job
	switch {
	case e.index == 0 || !isKept(e.content), c.evicts && s.isEvictable(e):
		return nil
	case kept.Namespace != c.Job.Namespace:
		return &RefusedError{address, "it is kept for a job of another namespace"}
	case kept.Job != c.Job.Job:
		return &RefusedError{address, fmt.Sprintf("it is kept for job %q, this is job %q", kept.Job, c.Job.Job)}
	case e.content.Reserved && kept.Group != "" && kept.Group != c.Job.Group:
		return &RefusedError{address, fmt.Sprintf("it is reserved for group %q of job %q, this is group %q", kept.Group, kept.Job, c.Job.Group)}
	}
	return nil
}

// left returns whether the last holder of an address has left it.
func (s *session) left(ctx context.Context, address netip.Addr, e *entry, c claimant) error {
	switch {
	case e.index == 0:
		return nil
	case e.isHeld() && e.content.Host.Instance == s.host.Instance:
		return s.leftHere(ctx, address, e)
	case e.isHeld():
		return s.leftElsewhere(ctx, address, e, c)
	case e.content.Host.Instance == s.host.Instance && e.content.Host.Boot == s.host.Boot, s.age(e.content.Freed) >= quiet:
		return nil // what this machine has taken in this boot, it has given back when nothing had it any more
	}
	return &BusyError{Address: address, Reason: "another host has given it back a moment ago", wait: quiet - s.age(e.content.Freed)}
}

// leftHere is left for an address of this host without a lease. One without a record was taken
// by a late request of a killed process, or belongs to a state that was restored from a
// snapshot: then another host may have it, and needs time to say so.
func (s *session) leftHere(ctx context.Context, address netip.Addr, e *entry) error {
	r := s.records[address]
	if r != nil && !s.mayChange(r) {
		return &BusyError{Address: address, Reason: "this host had it before it booted, a moment ago, and may be a copy of another one that has it"}
	}
	if r != nil && r.Content.ClaimID == e.content.ClaimID && (r.Released.IsZero() || r.Released.After(s.memory.Restored)) {
		return nil
	}
	if s.isNew {
		return &BusyError{Address: address, Reason: "this host holds it without knowing, and has booted a moment ago"}
	}
	if err := s.freeUnknown(ctx, address, e); err != nil {
		return err
	}
	return &BusyError{Address: address, Reason: "this host held it without knowing, and has given it back"}
}

// leftElsewhere is left for an address of another host.
func (s *session) leftElsewhere(ctx context.Context, address netip.Addr, e *entry, c claimant) error {
	if s.isOwnNode(e) && e.content.Host.Boot == s.host.Boot && e.content.Owner == c.Owner {
		return nil // the state directory was lost, and the container is set up again
	}
	ended, err := s.ended(ctx, e)
	switch {
	case ended && err == nil:
		return nil
	case sameJob(e.content.Job, c.Job):
		reason := fmt.Sprintf("container %s on node %q has it, and its allocation is neither complete nor failed for %s", e.content.Owner.ContainerID, e.content.Host.NodeName, quiet)
		return &BusyError{Address: address, Reason: reason, Err: err}
	case e.content.Job.Namespace == c.Job.Namespace:
		return &RefusedError{address, fmt.Sprintf("job %q has it", e.content.Job.Job)}
	}
	return &RefusedError{address, "a job of another namespace has it"}
}

func (s *session) isOwnNode(e *entry) bool {
	return s.host.NodeID != "" && e.content.Host.NodeID == s.host.NodeID
}

// ended returns whether Nomad says that the holder has left an address.
func (s *session) ended(ctx context.Context, e *entry) (bool, error) {
	if s.a.o.Holder == nil {
		return false, nil
	}
	if e.content.Job.Allocation != "" {
		since, err := s.a.o.Holder.Ended(ctx, e.content.Job.Namespace, e.content.Job.Allocation)
		if err != nil || !since.IsZero() && s.age(since) >= quiet {
			return err == nil, err
		}
	}
	return s.isGone(ctx, e.content.Host)
}

// isLimited returns whether an address would be one more of those that the limit counts.
func (s *session) isLimited(address netip.Addr, job ipam.Job) bool {
	e := s.view.at(address)
	return s.a.o.Config.MaxReservedPerJob > 0 && job.Job != "" && !e.content.Reserved && (e.index == 0 || !sameJob(e.content.Job, job))
}

// belowLimit returns whether the job may have one more address. Another host may take one for
// it at the same time: confirm looks again.
func (s *session) belowLimit(address netip.Addr, c claimant) error {
	limit, count := s.a.o.Config.MaxReservedPerJob, s.countOf(c.Job)
	if !s.isLimited(address, c.Job) || count < limit {
		return nil
	}
	return fmt.Errorf("%w: job %q has %d reserved addresses already, and maxReservedPerJob is %d: stop allocations of it, or let an operator unreserve some",
		ipam.ErrInvalid, c.Job.Job, count, limit)
}

// countOf returns how many addresses of a job the limit counts.
func (s *session) countOf(job ipam.Job) int {
	count := 0
	for _, e := range s.view {
		if e.index != 0 && sameJob(e.content.Job, job) && !e.content.Reserved {
			count++
		}
	}
	return count
}

// write takes an address: on record first, then in the store, then by a lease. It returns
// false if the entry is not as it was read.
func (s *session) write(ctx context.Context, address netip.Addr, c claimant) (bool, error) {
	e, old := s.view.at(address), s.records[address]
	r := &record{State: taking, Drop: c.isNew, Content: s.content(address, e, c)}
	if err := s.mustPut(ctx, address, r); err != nil {
		return false, err
	}
	index, err := s.save(ctx, r.Content, e.index)
	switch {
	case err == nil:
		return true, s.lease(ctx, r, index)
	case errors.Is(err, errOvertaken):
		return false, s.mustPut(ctx, address, nil)
	case errors.Is(err, ipam.ErrRefused): // nothing was done
		return false, errors.Join(err, s.mustPut(ctx, address, old))
	}
	return false, fmt.Errorf("take reserved address %s: %w", address, err)
}

// content is what the entry of an address says when the claimant has it.
func (s *session) content(address netip.Addr, e *entry, c claimant) ipam.AddressContent {
	content := ipam.AddressContent{Pool: s.a.o.Config.Pool, Address: address, State: ipam.Held, Host: s.host,
		ClaimID: newClaim(), Owner: c.Owner, Job: c.Job, Reserved: e.content.Reserved}
	if kept := e.content.Job; content.Reserved && (kept.Key != "" || c.Job.Key == "") {
		content.Job.Group, content.Job.Key = kept.Group, kept.Key // what the operator said stays
	}
	return content
}

// save writes an entry that is at an index, 0 for none, and returns its new index. After a
// conflict the view has the entry as it is. An error but errOvertaken and ipam.ErrRefused
// leaves the outcome unknown.
func (s *session) save(ctx context.Context, content ipam.AddressContent, index uint64) (uint64, error) {
	path, data := ipam.AddressPath(content.Pool, content.Address), ipam.Encode(content)
	var err error
	if index == 0 {
		index, err = s.store.Create(ctx, path, data)
	} else {
		index, err = s.store.Update(ctx, path, data, index)
	}
	if errors.Is(err, ipam.ErrConflict) || errors.Is(err, ipam.ErrNotFound) {
		return s.compare(ctx, content)
	}
	if err == nil {
		s.see(content, index)
	}
	return index, err
}

// compare returns the index of an entry if it has the content: a request that failed was the
// repetition of one whose answer was lost.
func (s *session) compare(ctx context.Context, content ipam.AddressContent) (uint64, error) {
	e, err := s.reread(ctx, content.Address)
	if err != nil { // also if it is refused: the write may have been made
		return 0, fmt.Errorf("%w: entry of %s: %s", ipam.ErrUnavailable, content.Address, err.Error())
	}
	if e.index == 0 { // it was there when the write was refused: the store was restored since
		s.seeMissing(content.Address, rememberedEntry{})
	}
	if e.index == 0 || e.content.ClaimID != content.ClaimID || e.content.State != content.State {
		return 0, errOvertaken
	}
	return e.index, nil
}

// lease makes the lease of an address that was taken, and notes that it is held.
func (s *session) lease(ctx context.Context, r *record, index uint64) error {
	address := r.Content.Address
	if err := s.a.o.Leases.Add(ctx, address, r.Content.Owner); err != nil {
		return err
	}
	err := s.mustPut(ctx, address, r.heldAt(index, r.Content))
	if err != nil {
		return errors.Join(err, s.a.o.Leases.Remove(ctx, address, r.Content.Owner))
	}
	return nil
}

// mustPut is put for a record that no other process should change.
func (s *session) mustPut(ctx context.Context, address netip.Addr, changed *record) error {
	done, err := s.put(ctx, address, changed)
	if err == nil && !done {
		err = fmt.Errorf("reserved address %s was given back while it was taken", address)
	}
	return err
}
