// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package plugin

import (
	"path/filepath"

	"github.com/allocnet/allocnet/ipam"
	"github.com/allocnet/allocnet/ipam/filestore"
	"github.com/allocnet/allocnet/ipam/pool"
)

// New returns a plugin whose pools are in the store of this host.
func New() *Plugin {
	return &Plugin{Open: func(conf *ipam.Config) *pool.Pool {
		return pool.New(pool.Options{Config: conf, Open: func() (ipam.Store, ipam.Host, error) {
			return filestore.New(filepath.Join(conf.StateDir, "ipam", "store")), ipam.Host{}, nil
		}})
	}}
}
