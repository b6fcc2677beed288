// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package pools

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/allocnet/allocnet/cluster/ipam"
)

// answering is a store that answers all requests with one error.
type answering struct{ err error }

func (s answering) Get(context.Context, string) (ipam.Entry, error) { return ipam.Entry{}, s.err }

func (s answering) List(context.Context, string, uint64) (ipam.Listing, error) {
	return ipam.Listing{Index: 7}, s.err
}

func (s answering) Create(context.Context, string, []byte) (uint64, error) { return 8, s.err }

func (s answering) Update(context.Context, string, []byte, uint64) (uint64, error) { return 9, s.err }

func (s answering) Delete(context.Context, string, uint64) error { return s.err }

// seen has what an observer was told.
type seen []string

func (s *seen) StoreCall(operation, code string, took time.Duration) {
	if took < 0 {
		*s = append(*s, "before its beginning")
	}
	*s = append(*s, operation+" "+code)
}

func (s *seen) Claim(pool, outcome string) { *s = append(*s, "claim "+pool+" "+outcome) }

// TestObserve: each request is reported with its operation and outcome, and nothing is
// changed.
func TestObserve(t *testing.T) {
	ctx := t.Context()
	var got seen
	s := Observe(answering{}, "a", &got)
	_, _ = s.Get(ctx, "x")
	l, _ := s.List(ctx, "x", 0)
	_, _ = s.List(ctx, "x", 7)
	created, _ := s.Create(ctx, ipam.BlocksPrefix("a")+"0a5b0000-26", nil)
	_, _ = s.Create(ctx, ipam.PoolPath("a"), nil)
	updated, _ := s.Update(ctx, "x", nil, 1)
	_ = s.Delete(ctx, "x", 1)
	want := seen{"get done", "list done", "watch done", "create done", "claim a claimed", "create done", "update done", "delete done"}
	if diff := cmp.Diff(want, got); diff != "" || l.Index != 7 || created != 8 || updated != 9 {
		t.Errorf("indexes %d %d %d\n%s", l.Index, created, updated, diff)
	}
	for code, err := range map[string]error{
		"not_found": ipam.ErrNotFound, "conflict": ipam.ErrConflict, "refused": ipam.ErrRefused, "unavailable": ipam.ErrUnavailable,
		"timeout": fmt.Errorf("%w: %w", ipam.ErrUnavailable, context.DeadlineExceeded), "failed": errors.New("x"),
	} {
		got = nil
		s := Observe(answering{fmt.Errorf("put: %w", err)}, "a", &got)
		_, failed := s.Create(ctx, ipam.BlocksPrefix("a")+"0a5b0000-26", nil)
		outcome := code
		if code == "conflict" {
			outcome = "taken"
		}
		if diff := cmp.Diff(seen{"create " + code, "claim a " + outcome}, got); diff != "" || !errors.Is(failed, err) {
			t.Errorf("%v: %v\n%s", err, failed, diff)
		}
	}
}

// withStale has stale reads, which fail.
type withStale struct{ answering }

func (withStale) Stale() ipam.Store { return answering{ipam.ErrNotFound} }

// TestObserveStale: stale reads are those of the store, and reported.
func TestObserveStale(t *testing.T) {
	var got seen
	_, err := ipam.Stale(Observe(withStale{}, "a", &got)).Get(t.Context(), "x")
	_, errOther := ipam.Stale(Observe(answering{}, "a", &got)).List(t.Context(), "x", 7)
	if diff := cmp.Diff(seen{"get not_found", "watch done"}, got); diff != "" || !errors.Is(err, ipam.ErrNotFound) || errOther != nil {
		t.Errorf("errors %v, %v\n%s", err, errOther, diff)
	}
}
