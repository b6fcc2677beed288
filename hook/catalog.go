// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package hook

import (
	"errors"
	"slices"

	"github.com/allocnet/allocnet/cniconf"
)

// Catalog returns the networks that can be attached now: Config.Networks, then
// those of Config.ConfDirs as they are on disk.
func (e *Engine) Catalog() (*cniconf.Catalog, error) {
	catalog, err := cniconf.Load(e.config.ConfDirs...)
	if errors.Is(err, cniconf.ErrNoDir) && len(e.config.Networks) > 0 {
		catalog, err = &cniconf.Catalog{Dirs: e.config.ConfDirs}, nil
	}
	if err != nil {
		return nil, err
	}
	catalog.Networks = slices.Concat(e.config.Networks, catalog.Networks)
	return catalog, nil
}
