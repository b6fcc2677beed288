// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package api

import (
	"time"

	"github.com/allocnet/allocnet/allocation"
)

// Pools are those of allocnet-ipam that networks of this host use.
type Pools struct {
	Pools []Pool `json:"pools"`
}

// Pool is what this host has of a pool.
type Pool struct {
	Pool string `json:"pool"`
	// Families are empty if the pool cannot be used.
	Families []PoolFamily `json:"families"`
	Blocks   []PoolBlock  `json:"blocks"`
	// Verified is when the blocks were verified with the store. Zero: never.
	Verified time.Time `json:"verified,omitzero"`
	// Problems are what keeps the pool from assigning addresses, or soon will.
	Problems []PoolProblem `json:"problems"`
}

// PoolFamily is the sum of the blocks of one family.
type PoolFamily struct {
	// Family is ipv4 or ipv6.
	Family string `json:"family"`
	Blocks int    `json:"blocks"`
	PoolAddresses
}

// PoolBlock is a block of this host.
type PoolBlock struct {
	Block string `json:"block"`
	// State is claiming, held, releasing or lost.
	State string `json:"state"`
	PoolAddresses
}

// PoolAddresses counts addresses by their state. Cooling ones were freed a short time ago.
type PoolAddresses struct {
	Used    int `json:"used"`
	Cooling int `json:"cooling"`
	Free    int `json:"free"`
}

// PoolProblem is a problem of a pool.
type PoolProblem struct {
	Problem string `json:"problem"`
	// Text says what the problem is.
	Text string `json:"text"`
}

// Leaks is what the last garbage collection left of dead allocations on the host.
type Leaks struct {
	// Examined is when the host was examined. Zero: not yet.
	Examined time.Time `json:"examined,omitzero"`
	Leaks    []Leak    `json:"leaks"`
	// Problems are places that could not be examined.
	Problems []string `json:"problems"`
}

// Leak is an object on the host whose allocation is dead.
type Leak struct {
	// Kind is what the object is, such as lease.
	Kind string `json:"kind"`
	// Where is its name in the tools that show it, or its path.
	Where string `json:"where"`
	// Allocation and Network are what it was made for. Empty: unknown.
	Allocation string `json:"allocation,omitempty"`
	Network    string `json:"network,omitempty"`
	// Reason is why it is a leak.
	Reason string `json:"reason"`
	// Error is why it was not removed. Empty: the agent only reports leaks.
	Error string `json:"error,omitempty"`
}

// Map is a picture of the host, and how it differs from the records.
type Map struct {
	// SVG draws networks, devices, allocations and attachments. It has no script, and needs
	// nothing from elsewhere.
	SVG string `json:"svg"`
	// Drift is what differs.
	Drift []Drift `json:"drift"`
}

// Drift is how a device or an allocation differs from what was attached.
type Drift struct {
	// Network, Allocation and Interface are where. Empty: the difference is of another one.
	Network    string `json:"network,omitempty"`
	Allocation string `json:"allocation,omitempty"`
	Interface  string `json:"interface,omitempty"`
	// Text says what differs.
	Text string `json:"text"`
}

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
	RemovedBy []allocation.Remover `json:"removedBy,omitempty"`
	// Error is why a repair has failed.
	Error string `json:"error,omitempty"`
}

// WaitingRepair is an allocation that is repaired again after a pause.
type WaitingRepair struct {
	Allocation string `json:"allocation"`
	// Repairs is the number of those in short succession.
	Repairs int `json:"repairs"`
	// RemovedBy are those that were last known to have removed rules of the chains that these restored.
	RemovedBy []allocation.Remover `json:"removedBy,omitempty"`
}
