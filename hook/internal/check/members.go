// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package check

import (
	"context"
	"errors"

	"github.com/allocnet/allocnet/cniconf"
	"github.com/allocnet/allocnet/hook/internal/onrecord"
	"github.com/allocnet/allocnet/hook/internal/operation"
	"github.com/allocnet/allocnet/isolation"
	"github.com/allocnet/allocnet/policy"
	"github.com/allocnet/allocnet/state"
)

// Members is Engine.Members. What can be read of the records is in the result even with an error.
func Members(ctx context.Context, e *operation.Env) ([]isolation.Member, error) {
	catalog, err := e.Config.Catalog()
	if err != nil {
		return nil, err
	}
	var all []isolation.Member
	var errs []error
	for record, err := range e.Store.List(ctx) {
		if err != nil {
			errs = append(errs, err)
			continue
		}
		for _, a := range record.Attachments {
			m, err := onrecord.Member(record.Allocation, a)
			if err == nil && m.Link != "" {
				m.Level, err = levelOf(catalog, a.Network)
				all = append(all, m)
			}
			if err != nil {
				errs = append(errs, &state.UnreadableError{ID: record.Allocation.ID, Err: err})
			}
		}
	}
	return all, errors.Join(errs...)
}

// levelOf is the level of a network. One that has no file any more has none.
func levelOf(c *cniconf.Catalog, network string) (isolation.Level, error) {
	n, err := c.Lookup(network)
	if missing := (*cniconf.NotFoundError)(nil); errors.As(err, &missing) {
		return isolation.None, nil
	}
	if err != nil {
		return isolation.None, err
	}
	rules, err := policy.Of(n)
	return rules.Level(), err
}
