// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package agent

import (
	"net/http"

	"github.com/allocnet/allocnet/agent/api"
	"github.com/allocnet/allocnet/hostmap"
)

// getMap draws the host. Records that cannot be read are missing in the map, as GET
// /v1/allocations says.
func (a *Agent) getMap(r *http.Request) (any, error) {
	m, err := a.config.Map(r.Context())
	if m == nil {
		return nil, err
	}
	return wireMap(m), nil
}

func wireMap(m *hostmap.Map) *api.Map {
	wire := &api.Map{SVG: hostmap.SVG(m), Drift: []api.Drift{}}
	for _, n := range m.Networks {
		for _, d := range n.Devices {
			if d.Drift != "" {
				wire.Drift = append(wire.Drift, api.Drift{Network: n.Name, Text: d.Drift})
			}
		}
	}
	for _, a := range m.Allocations {
		for _, text := range a.Drift {
			wire.Drift = append(wire.Drift, api.Drift{Allocation: a.ID, Text: text})
		}
		for _, n := range a.Attachments {
			for _, text := range n.Drift {
				wire.Drift = append(wire.Drift, api.Drift{Network: n.Network, Allocation: a.ID, Interface: n.Interface, Text: text})
			}
		}
	}
	return wire
}
