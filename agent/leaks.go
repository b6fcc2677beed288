// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package agent

import (
	"cmp"
	"net/http"
	"time"

	"github.com/allocnet/allocnet/agent/api"
	"github.com/allocnet/allocnet/cleanup"
)

func (a *Agent) getLeaks(*http.Request) (any, error) { return a.config.Leaks(), nil }

// wireLeaks returns the leaks that a round left; without removal that is all of them.
func wireLeaks(report *cleanup.Report, removed bool, examined time.Time) *api.Leaks {
	wire := &api.Leaks{Examined: examined, Leaks: []api.Leak{}, Problems: []string{}}
	failed := map[string]string{}
	for _, f := range report.Failures {
		failed[f.Where] = f.Err.Error()
	}
	for _, d := range report.Leaked() {
		why, left := failed[d.Where]
		if removed && !left {
			continue
		}
		wire.Leaks = append(wire.Leaks, api.Leak{
			Kind: string(d.Kind), Where: d.Where, Allocation: d.Owner.Allocation, Network: d.Owner.Network, Reason: d.Reason, Error: cmp.Or(why, d.Blocked),
		})
	}
	for _, p := range report.Problems {
		wire.Problems = append(wire.Problems, p.String())
	}
	return wire
}
