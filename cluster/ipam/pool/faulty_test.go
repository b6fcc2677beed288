// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package pool

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/allocnet/allocnet/cluster/ipam"
)

// errKilled ends the process that makes a request.
var errKilled = errors.New("killed")

// faultyStore loses requests and answers, makes changes twice or later, refuses, and kills those
// that use it. It is used by one goroutine.
type faultyStore struct {
	ipam.Store
	random *rand.Rand
	// faults is in how many of 100 requests there is one.
	faults int
	// late are changes that are still to be made.
	late []func()
}

// change makes a change, or does not, and says so, or does not.
func (s *faultyStore) change(do func() (uint64, error)) (uint64, error) {
	lost := fmt.Errorf("%w: connection reset", ipam.ErrUnavailable)
	if s.random.IntN(100) >= s.faults {
		return do()
	}
	switch s.random.IntN(7) {
	case 0:
		return 0, lost
	case 1:
		_, _ = do()
		return 0, lost
	case 2:
		s.late = append(s.late, func() { _, _ = do() })
		return 0, lost
	case 3:
		_, _ = do()
		return do() // sent again because no answer came
	case 4:
		return 0, fmt.Errorf("%w: 403", ipam.ErrRefused)
	case 5:
		_, _ = do()
	}
	panic(errKilled)
}

// arrive makes some of the late changes.
func (s *faultyStore) arrive(all bool) {
	for len(s.late) > 0 && (all || s.random.IntN(3) == 0) {
		i := s.random.IntN(len(s.late))
		s.late[i]()
		s.late = append(s.late[:i], s.late[i+1:]...)
	}
}

func (s *faultyStore) read() error {
	if s.random.IntN(100) >= s.faults {
		return nil
	}
	if s.random.IntN(3) == 0 {
		panic(errKilled)
	}
	return fmt.Errorf("%w: no cluster leader", ipam.ErrUnavailable)
}

func (s *faultyStore) Get(ctx context.Context, path string) (ipam.Entry, error) {
	if err := s.read(); err != nil {
		return ipam.Entry{}, err
	}
	return s.Store.Get(ctx, path)
}

func (s *faultyStore) List(ctx context.Context, prefix string, after uint64) (ipam.Listing, error) {
	if err := s.read(); err != nil {
		return ipam.Listing{}, err
	}
	return s.Store.List(ctx, prefix, after)
}

func (s *faultyStore) Create(ctx context.Context, path string, content []byte) (uint64, error) {
	return s.change(func() (uint64, error) { return s.Store.Create(ctx, path, content) })
}

func (s *faultyStore) Update(ctx context.Context, path string, content []byte, index uint64) (uint64, error) {
	return s.change(func() (uint64, error) { return s.Store.Update(ctx, path, content, index) })
}

func (s *faultyStore) Delete(ctx context.Context, path string, index uint64) error {
	_, err := s.change(func() (uint64, error) { return 0, s.Store.Delete(ctx, path, index) })
	return err
}
