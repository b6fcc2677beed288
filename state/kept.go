// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package state

import (
	"context"
	"errors"
	"sync"

	"github.com/allocnet/allocnet/internal/files"
)

// Kept is what was made of each record of a store while its journal stays as it is: of thousands of records few change between two looks at all of
// them. The zero value has nothing yet. It may be used concurrently.
type Kept[T any] struct {
	mu sync.Mutex // guards all below
	// dir is that of the store whose records these are of: each call to an agent has a Store.
	dir  string
	byID map[string]kept[T]
}

type kept[T any] struct {
	journal files.Stamp
	value   T
}

// Each calls do for what derive makes of each record, in the order of their IDs; what do gets does not change. It is not kept unless it is of the record
// alone. The error is that of the records that cannot be read, for which nothing is called.
func (k *Kept[T]) Each(ctx context.Context, s *Store, derive func(Record) (value T, isOfRecord bool), do func(T)) (unread error) {
	return k.each(ctx, s, s.IDs, derive, do)
}

// EachLeased is Each for the records of Leases.List.
func (k *Kept[T]) EachLeased(ctx context.Context, s *Store, derive func(Record) (value T, isOfRecord bool), do func(T)) (unread error) {
	return k.each(ctx, s, s.Leases().ids, derive, do)
}

func (k *Kept[T]) each(ctx context.Context, s *Store, listIDs func() ([]string, error), derive func(Record) (value T, isOfRecord bool), do func(T)) (unread error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	before := k.byID
	if k.dir != s.dir {
		before = nil
	}
	k.dir, k.byID = s.dir, map[string]kept[T]{} // what is gone is kept no longer
	ids, err := listIDs()
	if err != nil {
		return err
	}
	dir := s.allocations() + "/"
	for _, id := range ids {
		if ctx.Err() != nil {
			return errors.Join(unread, context.Cause(ctx))
		}
		is, isOld := files.StampOf(dir + id + "/" + journalFile)
		one, wasKept := before[id]
		if !isOld || !wasKept || one.journal != is {
			record, ok, err := s.readListed(id)
			if !ok {
				unread = errors.Join(unread, err)
				continue
			}
			one.journal = is
			one.value, wasKept = derive(record)
		}
		if isOld && wasKept {
			k.byID[id] = one
		}
		do(one.value)
	}
	return unread
}
