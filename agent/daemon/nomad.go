// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package daemon

import (
	"context"
	"path/filepath"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/allocnet/allocnet/agent/config"
	"github.com/allocnet/allocnet/cniconf"
	"github.com/allocnet/allocnet/internal/wake"
	"github.com/allocnet/allocnet/nomad"
)

// newNomad returns the client of the block nomad; nil without the block.
func newNomad(c config.Config, log hclog.Logger) (*nomad.Client, error) {
	n := c.Nomad
	if n == nil {
		return nil, nil
	}
	return nomad.New(nomad.Config{
		Address: n.Address, TokenFile: n.TokenFile, CAFile: n.CAFile, CertFile: n.CertFile, KeyFile: n.KeyFile, TLSName: n.TLSName,
		NodeID: n.NodeID, NetworksDir: filepath.Join(c.StateDir, "job-networks"), JobNetworks: n.JobNetworks, Logger: log.Named("nomad"),
	})
}

// publishInterval is the time between two comparisons of the networks with the
// metadata in Nomad.
const publishInterval = time.Minute

// publish keeps the node's metadata in Nomad up to date with the networks.
func (d *Daemon) publish(ctx context.Context) {
	for goesOn := true; goesOn; goesOn = wake.After(ctx, publishInterval) {
		if err := d.publishOnce(ctx); err != nil && ctx.Err() == nil {
			d.log.Warn("networks are not published in the metadata of the Nomad node", "error", err)
		}
	}
}

func (d *Daemon) publishOnce(ctx context.Context) error {
	catalog, err := cniconf.Load(d.config.ConfDirs...)
	if err != nil {
		return err
	}
	var names []string
	usable, _ := d.engineConfig().Usable(catalog).Split()
	for _, n := range usable {
		names = append(names, n.Name)
	}
	return d.nomad.Publish(ctx, names, d.pools.Free(ctx))
}
