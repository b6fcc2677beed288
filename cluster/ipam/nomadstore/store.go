// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package nomadstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"sync/atomic"

	"github.com/allocnet/allocnet/cluster/ipam"
	"github.com/allocnet/allocnet/cluster/rest"
)

// Store is an ipam.Store on Nomad's variables. It may be used concurrently.
type Store struct {
	client    *rest.Client
	namespace string
	// exists is whether the namespace exists, or is not known to be missing.
	exists atomic.Bool
}

var _ ipam.Store = (*Store)(nil)

// New returns a store. It sends no request. Empty: Nomad's namespace default.
func New(client *rest.Client, namespace string) *Store {
	return &Store{client: client, namespace: cmp.Or(namespace, "default")}
}

// Get implements ipam.Store. The content of a variable that another program has written is
// empty.
func (s *Store) Get(ctx context.Context, path string) (ipam.Entry, error) {
	return s.get(ctx, path, s.do)
}

// get reads a variable by a way to send requests.
func (s *Store) get(ctx context.Context, path string, do sending) (ipam.Entry, error) {
	answer, err := do(ctx, request(http.MethodGet, path))
	if err != nil {
		return ipam.Entry{}, err
	}
	v, err := decodeExisting(answer.Body, path)
	if err != nil {
		return ipam.Entry{}, s.unavailable(err)
	}
	return ipam.Entry{Path: path, Content: []byte(v.Items[item]), Index: v.ModifyIndex}, nil
}

// Create implements ipam.Store.
func (s *Store) Create(ctx context.Context, path string, content []byte) (uint64, error) {
	if err := s.requireNamespace(ctx); err != nil {
		return 0, err
	}
	return s.write(ctx, path, content, 0)
}

// Update implements ipam.Store.
func (s *Store) Update(ctx context.Context, path string, content []byte, index uint64) (uint64, error) {
	if index == 0 {
		return 0, fmt.Errorf("%s: %w", path, ipam.ErrConflict) // 0 would create it
	}
	return s.write(ctx, path, content, index)
}

func (s *Store) write(ctx context.Context, path string, content []byte, index uint64) (uint64, error) {
	r := request(http.MethodPut, path)
	r.Query.Set("cas", strconv.FormatUint(index, 10))
	var err error
	if r.Body, err = encode(path, content); err != nil {
		return 0, err
	}
	answer, err := s.do(ctx, r)
	if err != nil {
		return 0, err
	}
	v, err := decodeExisting(answer.Body, path)
	if err != nil {
		return 0, s.unavailable(err)
	}
	return v.ModifyIndex, nil
}

// Delete implements ipam.Store.
func (s *Store) Delete(ctx context.Context, path string, index uint64) error {
	r := request(http.MethodDelete, path)
	r.Query.Set("cas", strconv.FormatUint(index, 10))
	_, err := s.do(ctx, r)
	if !errors.Is(err, ipam.ErrConflict) {
		return err
	}
	// To Nomad, a missing variable is a conflict, too, and looks as a locked one does.
	switch _, getErr := s.Get(ctx, path); {
	case errors.Is(getErr, ipam.ErrNotFound):
		return nil
	case getErr != nil:
		return getErr
	}
	return err
}

func request(method, path string) rest.Request {
	return rest.Request{Method: method, Path: "/v1/var/" + path, Query: url.Values{}, MostBytes: mostBytes}
}

// sending sends a request to read.
type sending func(ctx context.Context, r rest.Request) (rest.Answer, error)

// do sends a request to the namespace.
func (s *Store) do(ctx context.Context, r rest.Request) (rest.Answer, error) {
	if ctx.Err() != nil {
		return rest.Answer{}, s.unavailable(context.Cause(ctx))
	}
	r.Query.Set("namespace", s.namespace)
	answer, err := s.client.Do(ctx, r)
	if err != nil {
		return rest.Answer{}, s.classify(r, err)
	}
	return answer, nil
}
