// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package nomadstore

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/allocnet/allocnet/cluster/ipam"
	"github.com/allocnet/allocnet/cluster/rest"
)

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
