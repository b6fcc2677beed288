// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package api

import "time"

// Repair is what the agent has found of attachments that lack something.
type Repair struct {
	// Mode is "report", "rules" or "reattach".
	Mode string `json:"mode"`
	// Damaged are the attachments that are not repaired.
	Damaged []Damage `json:"damaged"`
	// Waiting are the allocations whose next repair waits, because they were repaired too often, or
	// a repair failed.
	Waiting []WaitingRepair `json:"waiting"`
}

// Damage is what an attachment lacks of what was made when it was attached.
type Damage struct {
	Allocation string `json:"allocation"`
	// Network is empty for what belongs to no attachment.
	Network string `json:"network,omitempty"`
	// Interface is that of the attachment, or lo. Empty: it is about the allocation.
	Interface string `json:"interface,omitempty"`
	// Since is when the agent found it first.
	Since time.Time `json:"since"`
	// Missing is what a repair can restore, in words.
	Missing []string `json:"missing"`
	// Unrepairable is what only comes back if the network is attached again, in words.
	Unrepairable []string `json:"unrepairable"`
	// RemovedBy are the processes that are known to have removed rules of the chains that lack some.
	RemovedBy []Remover `json:"removedBy,omitempty"`
	// Error is why a repair has failed.
	Error string `json:"error,omitempty"`
}

// WaitingRepair is an allocation that is repaired again after a pause.
type WaitingRepair struct {
	Allocation string `json:"allocation"`
	// Repairs is the number of those in short succession.
	Repairs int `json:"repairs"`
	// RemovedBy are those that were last known to have removed rules of the chains that these restored.
	RemovedBy []Remover `json:"removedBy,omitempty"`
}
