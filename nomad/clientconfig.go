// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package nomad

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"github.com/hashicorp/nomad/api"
)

// ClientConfig has settings of the Nomad client on this host.
type ClientConfig struct {
	// AllocDir has the directories of the allocations. Empty in development mode, where
	// it is a temporary directory.
	AllocDir string
	// CNIConfigDir has the networks that Nomad offers.
	CNIConfigDir string
	// Version is that of the agent.
	Version Version
}

// clientTimeout is a variable for tests.
var clientTimeout = 3 * time.Second

// ReadClientConfig asks the Nomad agent. The connection is that of Nomad's CLI:
// NOMAD_ADDR, NOMAD_TOKEN and its other environment variables. An agent without a client
// is an error, and so is one that does not answer within 3 s, which is a timeout.
func ReadClientConfig(ctx context.Context) (ClientConfig, error) {
	ctx, cancel := context.WithTimeout(ctx, clientTimeout)
	defer cancel()
	client, err := api.NewClient(api.DefaultConfig())
	if err != nil {
		return ClientConfig{}, err
	}
	var self struct {
		Config struct {
			DataDir string
			Version struct{ Version string }
			Client  struct {
				Enabled                bool
				AllocDir, CNIConfigDir string
			}
		} `json:"config"`
	}
	if _, err := client.Raw().Query("/v1/agent/self", &self, (&api.QueryOptions{}).WithContext(ctx)); err != nil {
		return ClientConfig{}, fmt.Errorf("read the configuration of the nomad agent at %s: %w", client.Address(), err)
	}
	c := ClientConfig{AllocDir: self.Config.Client.AllocDir, CNIConfigDir: self.Config.Client.CNIConfigDir}
	if !self.Config.Client.Enabled {
		return ClientConfig{}, fmt.Errorf("the nomad agent at %s is not a client", client.Address())
	}
	if c.Version, err = ParseVersion(self.Config.Version.Version); err != nil {
		return ClientConfig{}, fmt.Errorf("the nomad agent at %s: %w", client.Address(), err)
	}
	if c.AllocDir == "" && self.Config.DataDir != "" {
		c.AllocDir = filepath.Join(self.Config.DataDir, "alloc") // Nomad's default
	}
	return c, nil
}
