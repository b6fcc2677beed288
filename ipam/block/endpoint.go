// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package block

import (
	"context"
	"fmt"

	"github.com/allocnet/allocnet/ipam"
)

const endpointFile, endpointVersion = "endpoint.json", 1

// endpoint is where this host is reached, as each process that claims a block writes it.
type endpoint struct {
	Version int `json:"version"`
	// Instance is whose it is. That of an earlier instance is of no use.
	Instance string        `json:"instance"`
	Endpoint ipam.Endpoint `json:"endpoint"`
}

// SetEndpoint records where this host is reached.
func (l *Leases) SetEndpoint(_ context.Context, e ipam.Endpoint) error {
	if err := e.Validate(); err != nil {
		return err
	}
	self, err := l.self()
	if err != nil {
		return err
	}
	if err := writeJSON(l.pool, endpointFile, endpoint{endpointVersion, self.Instance, e}); err != nil {
		return fmt.Errorf("write the endpoint of this host: %w", err)
	}
	return nil
}
