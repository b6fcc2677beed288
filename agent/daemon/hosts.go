// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package daemon

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/allocnet/allocnet/agent"
	"github.com/allocnet/allocnet/agent/hosts"
	"github.com/allocnet/allocnet/cniconf"
)

// newHosts returns what names the allocations of this host for each other; nil without the block nomad, and for a hook that attaches nothing.
func newHosts(d *Daemon, engine agent.Engine) *hosts.Keeper {
	e, ok := engine.(isolated)
	if !ok || d.nomad == nil {
		return nil
	}
	isolation, rosters := e.Isolation(), d.rosters
	return hosts.New(hosts.Config{
		Allocations: engine.List, Remotes: isolation.Remotes, Indexes: d.nomad.Indexes, Logger: d.log.Named("hosts"),
		AllocDir: d.allocDir,
		Version: func() (string, error) {
			version, err := isolation.Version()
			learned := uint64(0)
			if rosters != nil {
				learned = rosters.learned.Load()
			}
			return fmt.Sprint(version, " ", learned, " ", d.nomad.Renumbered()), err
		},
	})
}

// allocDir returns the directory of Nomad's allocations, as the conflist of the CNI plugin has it. Without one, as for the driver, Nomad is
// asked. Empty: there are to be no files.
func (d *Daemon) allocDir(ctx context.Context) (string, error) {
	catalog, err := cniconf.Load(d.config.ConfDirs...)
	if err != nil {
		return "", err
	}
	dir, says := catalog.AllocDir()
	if !says {
		dir, err = d.nomad.AllocDir(ctx)
	}
	if err != nil || dir == "" {
		return "", err
	}
	return filepath.Join(d.config.CNI.Chroot, dir), nil
}
