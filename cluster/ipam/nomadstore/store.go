// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Package nomadstore keeps the entries of pools as variables of Nomad: the ipam.Store of a
// cluster.
package nomadstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/allocnet/allocnet/cluster/ipam"
	"github.com/allocnet/allocnet/cluster/rest"
)

// Store is an ipam.Store on Nomad's variables. It may be used concurrently.
type Store struct {
	client    *rest.Client
	namespace string
	// exists is whether the namespace exists, or is not known to be missing.
	exists *atomic.Bool
	// stale: see Stale.
	stale bool
}

var _ ipam.Store = (*Store)(nil)

// mostLag is for how long a server that answers may not have heard of the leader: what it knows is
// nearly as new as what the leader does. Elections take less.
const mostLag = 5 * time.Second

// Stale returns the store with reads that any server answers, and not the leader alone. They may
// be old, usually by less than a second, and an index may be lower than one that was read before.
// What must not be old is read from the Store itself.
func (s *Store) Stale() ipam.Store {
	stale := *s
	stale.stale = true
	return &stale
}

// New returns a store. It sends no request. Empty: Nomad's namespace default.
func New(client *rest.Client, namespace string) *Store {
	return &Store{client: client, namespace: cmp.Or(namespace, "default"), exists: &atomic.Bool{}}
}

// Get implements ipam.Store. The content of a variable that another program has written is
// empty.
func (s *Store) Get(ctx context.Context, path string) (ipam.Entry, error) {
	answer, err := s.read(ctx, request(http.MethodGet, path))
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
	switch _, getErr := s.do(ctx, request(http.MethodGet, path)); {
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

// read sends a request to read. The leader is asked if the server that answers is cut from it.
func (s *Store) read(ctx context.Context, r rest.Request) (rest.Answer, error) {
	if s.stale {
		r.Query.Set("stale", "")
		answer, err := s.do(ctx, r)
		if err != nil || answer.LastContact <= mostLag {
			return answer, err
		}
		r.Query.Del("stale")
		r.Query.Del("index")
		r.Wait = 0
	}
	return s.do(ctx, r)
}

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

// requireNamespace fails if Nomad says that the namespace does not exist: Nomad would write
// variables into it all the same, which no policy of a namespace gives rights to, and which are
// not seen. It asks until there is an answer. A token that may not ask, and a Nomad that does
// not answer, are no error.
func (s *Store) requireNamespace(ctx context.Context) error {
	if s.namespace == "default" || s.exists.Load() {
		return nil
	}
	r := rest.Request{Method: http.MethodGet, Path: "/v1/namespace/" + url.PathEscape(s.namespace), Query: url.Values{}, MostBytes: mostBytes}
	_, err := s.client.Do(ctx, r)
	var answer *rest.Error
	switch {
	case err == nil:
		s.exists.Store(true)
	case !errors.As(err, &answer):
	case answer.Status == http.StatusForbidden:
		s.exists.Store(true)
	case answer.Status == http.StatusNotFound && strings.TrimSpace(string(answer.Body)) == "Namespace not found":
		return fmt.Errorf("%w: %w: %q at %s: nomad namespace apply %s", ipam.ErrRefused, ipam.ErrNoNamespace, s.namespace, s.client.Address(), s.namespace)
	}
	return nil
}
