// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package config

import (
	"context"

	"github.com/allocnet/allocnet/isolation"
	"github.com/allocnet/allocnet/isolation/filter"
)

// Filter has the host keep attachments apart; see package filter.
type Filter interface {
	// Guard has nothing pass from an end of a veth pair on the host, which is to be a port of a bridge, or of none.
	Guard(ctx context.Context, id, end, bridge string) error
	// Add has pass what rules allow an attachment, while others are added and removed. It is safe to repeat. With an error something else is
	// missing.
	Add(ctx context.Context, rules filter.Rules, m filter.Member) error
	// Complete makes what Add has found missing of all that is on record, the attachment among it, while nothing else changes.
	Complete(ctx context.Context, rules filter.Rules, m filter.Member, all filter.Source) error
	// Remove removes what the host has for an attachment; what is missing is no error.
	Remove(ctx context.Context, rules filter.Rules, m filter.Member) error
	// Apply has the host have what is on record, and no more, while nothing else changes.
	Apply(ctx context.Context, all filter.Source) error
	// Change has the host know other attachments on other hosts than before. What else is missing it makes of all that is on record.
	Change(ctx context.Context, rules isolation.Rules, before, now []filter.Member, all filter.Source) error
	// Lacks returns what the host lacks, by the IDs of attachments.
	Lacks(ctx context.Context, s filter.State) (map[string][]string, error)
	// Denied returns what was dropped of attachments, by filter.CountedAs of their IDs.
	Denied(ctx context.Context) (map[string]isolation.Denied, error)
	// ApplyInside has a namespace have what is on record for it, and no more, while nothing else changes.
	ApplyInside(ctx context.Context, ns filter.Namespace, s filter.Inside) error
	// RemoveInside removes what a namespace has for an attachment, its own or another one; what is missing is no error.
	RemoveInside(ctx context.Context, ns filter.Namespace, m filter.Member) error
	// LacksInside returns what a namespace lacks, by the IDs of its attachments.
	LacksInside(ctx context.Context, ns filter.Namespace, s filter.Inside) (map[string][]string, error)
	// DeniedInside is Denied of a namespace.
	DeniedInside(ctx context.Context, ns filter.Namespace) (map[string]isolation.Denied, error)
}
