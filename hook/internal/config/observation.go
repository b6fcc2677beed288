// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package config

import (
	"time"

	"github.com/allocnet/allocnet/allocation"
	"github.com/allocnet/allocnet/internal/errdefs"
	"github.com/allocnet/allocnet/policy"
	"github.com/allocnet/allocnet/state"
)

// Op is a kind of operation.
type Op string

const (
	// OpAttach attaches a network.
	OpAttach Op = "attach"
	// OpRetry is an attempt to attach that failed and is repeated.
	OpRetry Op = "retry"
	// OpDetach removes an attachment by DEL.
	OpDetach Op = "detach"
	// OpCleanup removes by force what DEL leaves.
	OpCleanup Op = "cleanup"
	// OpRepair repairs an attachment, or without a Network a record.
	OpRepair Op = "repair"
	// OpLease is a change of the lease of DHCP of an attachment, or of its addresses by router advertisements, or that they were lost.
	OpLease Op = "lease"
)

// Outcome is that of an operation.
type Outcome string

const (
	// Done is a success.
	Done Outcome = "done"
	// Failed is a failure.
	Failed Outcome = "failed"
	// Refused is a request that cannot be met: nothing was done.
	Refused Outcome = "refused"
)

// Reason is why an operation is done that no caller asked for.
type Reason string

const (
	// ReasonGC is a garbage collection.
	ReasonGC Reason = "gc"
	// ReasonPending is another attempt of a teardown that failed.
	ReasonPending Reason = "pending"
	// ReasonBoot is what earlier boots left.
	ReasonBoot Reason = "boot"
	// ReasonRollback is the undoing of a set-up that failed.
	ReasonRollback Reason = "rollback"
	// ReasonReset removes an earlier set-up before a new one.
	ReasonReset Reason = "reset"
)

// Observation is one operation on one attachment, after its last attempt. With Op OpRetry
// it is one attempt. Without a Network it is one on the allocation: a call that fails
// before its operations on attachments or after them, a repair, or the removal of leaks.
type Observation struct {
	Op Op
	// Reason is empty if the caller asked for the operation.
	Reason Reason
	// Allocation is empty for an invalid ID.
	Allocation string
	Identity   policy.Identity
	// Task is that of the attachment; see Request.Task.
	Task      string
	Network   string
	Interface string
	// Networks are those of an observation without a Network, as far as they are known.
	Networks []string
	// Attempts is the number of its attempts.
	Attempts int
	// Objects is the number of leaks that were removed.
	Objects int
	// Missing is what the repair of an attachment found missing, in words.
	Missing []string
	// RemovedBy are the processes that are known to have removed rules of the chains that lack some.
	RemovedBy []allocation.Remover
	// Took is the time of all attempts and the pauses between them.
	Took time.Duration
	// Err is nil when it succeeded.
	Err error
}

// Outcome is Refused if nothing was done.
func (o Observation) Outcome() Outcome {
	if o.Err == nil {
		return Done
	}
	if errdefs.Of(o.Err) >= errdefs.Conflict {
		return Refused
	}
	return Failed
}

// Observer receives every operation. Attachments are worked on at the same time, so its
// method is called concurrently. It must not block: the caller of the engine waits.
type Observer interface {
	Observe(o Observation)
}

// Report tells the observers of an operation.
func (c Config) Report(o Observation) {
	for _, observer := range c.Observers {
		observer.Observe(o)
	}
}

// NewObservation returns that of an operation on an attachment, which ends now.
func NewObservation(op Op, reason Reason, of state.Allocation, a state.Attachment, attempts int, started time.Time, err error) Observation {
	return Observation{
		Op: op, Reason: reason, Allocation: of.ID, Identity: of.Identity, Task: a.Task,
		Network: a.Network, Interface: a.Interface, Attempts: attempts, Took: time.Since(started), Err: err,
	}
}
