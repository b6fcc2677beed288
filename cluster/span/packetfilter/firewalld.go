// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package packetfilter

import (
	"context"
	"errors"
	"net/netip"
	"os/exec"
	"slices"
)

// source is a subnet that is a source of firewalld's zone trusted, until firewalld is reloaded.
type source struct {
	Pool   string       `json:"pool"`
	Subnet netip.Prefix `json:"subnet"`
}

const (
	firewallCmd = "firewall-cmd"
	zoneOption  = "--zone=trusted"
)

// planSources returns the sources to add, and those on record to remove. One that firewalld has by another
// program's doing is not on record.
func planSources(r record, found Found, g Goal) (add, drop []source) {
	var want []source
	for _, c := range g.Pools {
		for _, subnet := range c.Subnets() {
			s := source{c.Pool, subnet}
			want = append(want, s)
			if found.IsRejected(subnet) {
				add = append(add, s)
			}
		}
	}
	for _, s := range r.Sources {
		hasSubnet := func(other source) bool { return other.Subnet == s.Subnet }
		if !slices.ContainsFunc(want, hasSubnet) && !slices.Contains(g.Spared, s.Pool) {
			drop = append(drop, s)
		}
	}
	return add, drop
}

// changeSources adds and removes sources, and returns those that there may be then. One that firewalld has in another zone is
// none: it has each in one zone.
func (r *round) changeSources(ctx context.Context, all, add, drop []source) []source {
	ctx, stop := context.WithTimeout(ctx, firewalldLimit)
	defer stop()
	gone := map[source]bool{}
	for _, s := range add {
		_, err := r.system.run(ctx, "", firewallCmd, zoneOption, "--add-source="+s.Subnet.String()) // not to its files, which are the operator's
		r.did("source "+s.Subnet.String(), err)
		gone[s] = exits(err, exitZoneConflict)
	}
	for _, s := range drop {
		gone[s] = r.did("no source "+s.Subnet.String(), r.removeSource(ctx, s))
	}
	return slices.DeleteFunc(all, func(s source) bool { return gone[s] })
}

// removeSource removes one, unless it is in firewalld's files meanwhile. Without firewalld there is none.
func (k *Keeper) removeSource(ctx context.Context, s source) error {
	if _, err := k.system.run(ctx, "", firewallCmd, "--permanent", zoneOption, "--query-source="+s.Subnet.String()); err == nil {
		return nil
	}
	_, err := k.system.run(ctx, "", firewallCmd, zoneOption, "--remove-source="+s.Subnet.String())
	if isGone(err) {
		return nil
	}
	return err
}

// Exit codes of firewall-cmd(1).
const (
	exitZoneConflict  = 18
	exitUnknownSource = 30
	exitNotRunning    = 252
)

// isGone is whether firewall-cmd failed because there is no such source.
func isGone(err error) bool {
	return errors.Is(err, exec.ErrNotFound) || exits(err, exitZoneConflict, exitUnknownSource, exitNotRunning)
}

func exits(err error, codes ...int) bool {
	var exit interface{ ExitCode() int }
	return errors.As(err, &exit) && slices.Contains(codes, exit.ExitCode())
}
