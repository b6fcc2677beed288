// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package ui

import (
	"context"
	"net/http"

	"github.com/allocnet/allocnet/agent/api"
)

func (s *Server) cluster(ctx context.Context, _ *http.Request) (content, error) {
	p := ask(ctx, s.config.Agent.Cluster)
	if p.Err != nil && p.Supported() {
		return content{}, p.Err
	}
	return content{"cluster", "Cluster", p}, nil
}

// reach is how a host answered the last probe: good, bad or unknown.
func reach(p *api.ClusterProbe) string {
	switch {
	case p == nil || p.Time.IsZero():
		return "unknown"
	case p.Error != "":
		return "bad"
	}
	return "good"
}
