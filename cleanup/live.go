// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package cleanup

import (
	"context"
	"fmt"
	"slices"
	"strings"

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

func listed(live map[string]string, id string) string {
	for _, word := range wordsOf(id) {
		if by := live[word]; by != "" {
			return by
		}
	}
	return ""
}

// wordsOf returns by what a list names an allocation. The first characters of an ID of Nomad are enough: a list that was made of one
// of its tables would otherwise have none of the living.
func wordsOf(id string) []string {
	words := []string{id}
	for n := shortID; n < len(id) && state.IsNomadID(id); n++ {
		words = append(words, id[:n])
	}
	return words
}

// Unrecognised returns the words of a list of live allocations that name none which is on record or has objects on the host. A
// complete ID of Nomad is one of an allocation without networks. If all words are such and there are leaks, it is an error: the list
// may be one of other things, and names none of the living.
func (c *Collector) Unrecognised(ctx context.Context, words []string) ([]string, error) {
	ids, err := c.Store.IDs()
	if err != nil {
		return nil, err
	}
	unknown := withoutNames(words, ids)
	if len(unknown) == 0 { // the host need not be scanned
		return nil, nil
	}
	report, err := c.Examine(ctx, Scope{}, NoneLive)
	if err != nil {
		return nil, err
	}
	ids = nil
	for _, d := range report.Decisions {
		ids = append(ids, d.Owner.Allocation)
	}
	unknown = withoutNames(unknown, ids)
	if len(unknown) == len(words) && len(report.Leaked()) > 0 {
		return nil, errdefs.As(errdefs.Refused, fmt.Errorf("no ID of the list is known on this host: %s: want complete IDs of allocations, or the first %d characters of those of Nomad; if none lives, give no list: nothing is removed",
			strings.Join(unknown[:min(len(unknown), 5)], ", "), shortID))
	}
	return unknown, nil
}

// withoutNames returns the words that name none of the allocations and are no complete IDs of Nomad.
func withoutNames(words, ids []string) []string {
	named := map[string]bool{}
	for _, id := range ids {
		for _, word := range wordsOf(id) {
			named[word] = true
		}
	}
	return slices.DeleteFunc(slices.Clone(words), func(word string) bool { return named[word] || state.IsNomadID(word) })
}
