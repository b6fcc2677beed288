// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package nomadstore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/allocnet/allocnet/cluster/ipam"
	"github.com/allocnet/allocnet/cluster/rest"
)

const (
	// longestWait is how long a List waits for a change.
	longestWait = 10 * time.Second
	// perPage variables are in an answer, each with at most mostListed bytes.
	perPage, mostListed = 1000, 2048
	// mostPages limit what another program can make this one read.
	mostPages = 100
)

// List implements ipam.Store. While others change variables the pages of a long list are not of
// one instant: its index is that of the first page, so that the next List does not wait.
func (s *Store) List(ctx context.Context, prefix string, after uint64) (ipam.Listing, error) {
	if err := s.requireNamespace(ctx); err != nil {
		return ipam.Listing{}, err
	}
	query := url.Values{"prefix": {prefix}, "per_page": {strconv.Itoa(perPage)}}
	r := rest.Request{Method: http.MethodGet, Path: "/v1/vars", Query: query, MostBytes: perPage * mostListed}
	if after > 0 {
		query.Set("index", strconv.FormatUint(after, 10))
		r.Wait = longestWait
	}
	var listing ipam.Listing
	for range mostPages {
		answer, err := s.read(ctx, r)
		if err != nil {
			return ipam.Listing{}, err
		}
		if listing.Index == 0 {
			listing.Index = max(1, answer.Index)
		}
		if listing.Entries, err = add(listing.Entries, answer.Body, prefix); err != nil {
			return ipam.Listing{}, s.unavailable(err)
		}
		if answer.NextToken == "" {
			slices.SortFunc(listing.Entries, func(a, b ipam.Entry) int { return strings.Compare(a.Path, b.Path) })
			return listing, s.mayList(ctx, prefix, listing)
		}
		query.Set("next_token", answer.NextToken)
		query.Del("index")
		r.Wait = 0
	}
	return ipam.Listing{}, s.unavailable(fmt.Errorf("more than %d variables begin with %q", perPage*mostPages, prefix))
}

// add adds the variables of an answer to the entries.
func add(entries []ipam.Entry, body []byte, prefix string) ([]ipam.Entry, error) {
	var page []variable
	if err := json.Unmarshal(body, &page); err != nil {
		return nil, fmt.Errorf("the answer is no list of variables: %w", err)
	}
	for _, v := range page {
		if !strings.HasPrefix(v.Path, prefix) {
			return nil, fmt.Errorf("the answer has the variable %.128q, want ones that begin with %q", v.Path, prefix)
		}
		entries = append(entries, ipam.Entry{Path: v.Path, Index: v.ModifyIndex})
	}
	return entries, nil
}

// mayList returns an error for an empty listing if the token may not read what is listed:
// Nomad leaves out what a token has no right to.
func (s *Store) mayList(ctx context.Context, prefix string, listing ipam.Listing) error {
	if len(listing.Entries) > 0 {
		return nil
	}
	_, err := s.do(ctx, request(http.MethodGet, prefix+"-"))
	if errors.Is(err, ipam.ErrNotFound) {
		return nil
	}
	return err
}
