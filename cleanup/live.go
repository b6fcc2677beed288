// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package cleanup

import (
	"context"
	"fmt"

	"github.com/allocnet/allocnet/internal/errdefs"
	"github.com/allocnet/allocnet/state"
)

// Live returns the name of the source that lists an allocation as live, or nothing.
// A nil Live means that the live set is unknown, unlike NoneLive.
type Live func(id string) (by string)

// NoneLive is an empty live set: only records, and liveness evidence on the host
// itself, keep an allocation's objects.
func NoneLive(string) string { return "" }

// ErrLiveUnknown is a plan without a live set.
var ErrLiveUnknown = errdefs.New(errdefs.Unavailable, "it is not known which allocations live: nothing is removed")

// Source lists live allocations.
type Source interface {
	// Live returns all their IDs. An error means that the live set is unknown.
	Live(ctx context.Context) ([]string, error)
	// Name is the name of the source in reasons.
	Name() string
}

// QueryLive queries all sources. An error of one is the result: the live set is
// incomplete without it.
func QueryLive(ctx context.Context, sources ...Source) (Live, error) {
	live := map[string]string{}
	for _, source := range sources {
		ids, err := source.Live(ctx)
		if err != nil {
			return nil, fmt.Errorf("query live allocations of %s: %w: nothing is removed", source.Name(), err)
		}
		for _, id := range ids {
			live[id] = source.Name()
		}
	}
	return func(id string) string { return listed(live, id) }, nil
}

// shortID is the number of characters of an ID of Nomad that its tables show.
const shortID = 8

// listed returns which source lists an allocation. The first characters of an ID of Nomad are enough: a list that was made of one of
// its tables would otherwise have none of the living.
func listed(live map[string]string, id string) string {
	by := live[id]
	for n := shortID; by == "" && n < len(id) && state.IsNomadID(id); n++ {
		by = live[id[:n]]
	}
	return by
}
