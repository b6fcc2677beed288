// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package repair

import (
	"slices"
	"strings"
	"time"

	"github.com/allocnet/allocnet/allocation"
)

// Mode is what RepairAttachments does about what is missing.
type Mode string

// Modes of RepairAttachments.
const (
	// ReportOnly changes nothing.
	ReportOnly Mode = "report"
	// Rules makes everything that can be made while interfaces stay in place.
	Rules Mode = "rules"
	// Reattach does so, and detaches what is missing still and attaches it again, with the
	// same name, addresses, MAC and ports.
	Reattach Mode = "reattach"
)

// Request says what RepairAttachments repairs.
type Request struct {
	// IDs are the allocations. None: all that are recorded.
	IDs []string
	// Except tells which allocations are left out. Nil: none.
	Except func(id string) bool
	// Mode is what is done. Empty: RepairRules.
	Mode Mode
	// LastChecks is whether the last outcome of CheckUnknown counts for plugins that allocnet
	// does not know. Default: their CHECK is run, after all else is repaired.
	LastChecks bool
	// Announce is whether the kernel shall tell the host's namespace of changes in those of the
	// allocations from now on.
	Announce bool
	// RemovedBy returns the processes that are known to have removed rules of the chains of which an
	// allocation lacks some, in words. It is asked once that is known. Nil: none is known.
	RemovedBy func(id string, missing []string) []allocation.Remover
	// Defer is whether RepairReattach leaves what has to be attached again to another call, because
	// that may take long: Drift.Skipped is SkippedReattachment. Default: it is attached again.
	Defer bool
	// reattaches is whether a report is for a call that attaches again.
	reattaches bool
	// Grace is how long an attachment may be attached again when ctx has ended, until its ADD is
	// given up and undone; at most 30 s. Default: 30 s.
	Grace time.Duration
}

// SkippedReattachment is Drift.Skipped of an attachment that has to be attached again; see Defer.
const SkippedReattachment = "it has to be attached again"

// SkippedBusy is Drift.Skipped of an allocation that is locked.
const SkippedBusy = "another call is changing it"

// Drift is what an attachment lacks of what was made when it was attached.
type Drift struct {
	Allocation string `json:"allocation"`
	// Network is empty for what belongs to no attachment.
	Network string `json:"network,omitempty"`
	// Interface is that of the attachment, or lo. Empty: it is about the allocation.
	Interface string `json:"interface,omitempty"`
	// Missing is what was missing, in words.
	Missing []string `json:"missing,omitempty"`
	// Unrepairable is what is missing and only comes back if the network is attached again.
	Unrepairable []string `json:"unrepairable,omitempty"`
	// RemovedBy are the processes that are known to have removed rules of the chains that lack some.
	RemovedBy []allocation.Remover `json:"removedBy,omitempty"`
	// Reattached is whether it was detached and attached again, so that nothing of Unrepairable is
	// missing any more.
	Reattached bool `json:"reattached,omitempty"`
	// Repaired is whether nothing is missing any more.
	Repaired bool `json:"repaired"`
	// Skipped says why it was not looked at. Empty: it was.
	Skipped string `json:"skipped,omitempty"`
	// Reported is whether an earlier repair has told of it, and nothing was attempted since: it
	// is an outcome of CheckUnknown.
	Reported bool `json:"-"`
	// Err is why it could not be repaired, or what is missing cannot be told.
	Err error `json:"-"`
}

// Open tells whether something is missing still, or may be.
func (d Drift) Open() bool { return !d.Repaired && d.Skipped == "" }

// sortDrifts sorts by allocation; those of one stay in their order.
func sortDrifts(all []Drift) {
	slices.SortStableFunc(all, func(a, b Drift) int { return strings.Compare(a.Allocation, b.Allocation) })
}
