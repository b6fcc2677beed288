// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package api

import "time"

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
