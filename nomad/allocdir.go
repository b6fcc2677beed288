// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package nomad

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/hashicorp/nomad/api"
)

// AllocDir returns the alloc_dir of the Nomad client on this host. The connection is
// that of Nomad's CLI: NOMAD_ADDR, NOMAD_TOKEN and its other environment variables.
// An agent without a client is an error.
func AllocDir(ctx context.Context) (string, error) {
	client, err := api.NewClient(api.DefaultConfig())
	if err != nil {
		return "", err
	}
	var self struct {
		Config struct {
			DataDir string
			Client  struct {
				Enabled  bool
				AllocDir string
			}
		} `json:"config"`
	}
	if _, err := client.Raw().Query("/v1/agent/self", &self, (&api.QueryOptions{}).WithContext(ctx)); err != nil {
		return "", fmt.Errorf("read the configuration of the nomad agent at %s: %w", client.Address(), err)
	}
	switch config := self.Config; {
	case !config.Client.Enabled:
		return "", fmt.Errorf("the nomad agent at %s is not a client", client.Address())
	case config.Client.AllocDir != "":
		return config.Client.AllocDir, nil
	case config.DataDir != "":
		return filepath.Join(config.DataDir, "alloc"), nil // Nomad's default
	}
	return "", errors.New("the nomad agent has neither alloc_dir nor data_dir: it runs in development mode")
}
