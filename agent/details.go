// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package agent

import (
	"context"
	"net/http"

	"github.com/allocnet/allocnet/agent/api"
	"github.com/allocnet/allocnet/hook"
)

// detailer knows what attachments have on the host.
type detailer interface {
	Details(ctx context.Context, id string) ([]hook.Details, error)
}

func (a *Agent) getDetails(r *http.Request) (any, error) {
	all, err := a.engine.(detailer).Details(r.Context(), r.PathValue("id"))
	if err != nil {
		return nil, err
	}
	return api.Details{Attachments: append([]hook.Details{}, all...)}, nil
}
