// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package nomadstore

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/allocnet/allocnet/cluster/ipam"
	"github.com/allocnet/allocnet/cluster/rest"
	"github.com/allocnet/allocnet/internal/errdefs"
)

// Policy is the ACL policy, in Nomad's HCL, that a token for the namespace needs. A policy for
// one namespace replaces that for "*" there: without read-job, an agent whose token has both
// would not see the allocations of the namespace any more.
func Policy(namespace string) string {
	return fmt.Sprintf(`namespace %q { capabilities = ["read-job"] variables { path "allocnet/ipam/*" { capabilities = ["read", "list", "write", "destroy"] } } }`, namespace)
}

// classify returns the error of a Store for that of a request.
func (s *Store) classify(r rest.Request, err error) error {
	if _, ok := errors.AsType[*rest.TokenError](err); ok {
		return fmt.Errorf("%w: %w", ipam.ErrRefused, err) // nothing was sent
	}
	var answer *rest.Error
	if !errors.As(err, &answer) {
		return s.unavailable(err)
	}
	path := strings.TrimPrefix(r.Path, "/v1/var/")
	switch answer.Status {
	case http.StatusForbidden:
		return fmt.Errorf("%w: %w; the token needs a policy with: %s", ipam.ErrRefused, err, Policy(s.namespace))
	case http.StatusBadRequest:
		return fmt.Errorf("%w: %w", ipam.ErrRefused, err)
	case http.StatusNotFound:
		// Of another server, or of a Nomad without variables, it has another text.
		if strings.TrimSpace(string(answer.Body)) == "variable not found" {
			return fmt.Errorf("%s: %w", path, ipam.ErrNotFound)
		}
	case http.StatusConflict:
		// A failed check has a text.
		if _, err := decode(answer.Body, path); err == nil {
			return fmt.Errorf("%s: %w", path, ipam.ErrConflict)
		}
	}
	return errdefs.As(errdefs.Unavailable, fmt.Errorf("%w: %w", ipam.ErrUnavailable, err))
}

// unavailable is the error of an answer that says nothing, whatever it is instead.
func (s *Store) unavailable(err error) error {
	return errdefs.As(errdefs.Unavailable, fmt.Errorf("%w: nomad at %s: %w", ipam.ErrUnavailable, s.client.Address(), err))
}
