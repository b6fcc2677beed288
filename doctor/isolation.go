// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package doctor

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/allocnet/allocnet/cniconf"
	"github.com/allocnet/allocnet/isolation"
	"github.com/allocnet/allocnet/policy"
)

// isolation reports what keeps rules and levels of isolation from holding at once. What the host lacks of them is among what attachments
// lack.
func (d *Doctor) isolation(ctx context.Context, r *Report, networks []network) {
	file := cmp.Or(d.IsolationFile, isolation.DefaultFile)
	rules, err := isolation.Load(file)
	if err != nil {
		r.addError(file, err.Error(), "correct the file: until then its former rules stay in force, and isolated networks cannot be attached")
	}
	var all []*cniconf.Network
	for _, n := range networks {
		all = append(all, n.Network)
	}
	for _, n := range all {
		if err := policy.CheckBridges(n, all); err != nil {
			r.addError(n.Path, fmt.Sprintf("network %q: %v", n.Name, err), "edit "+n.Path)
		}
	}
	if d.AgentSilent == nil || len(rules.Egress) == 0 && !slices.ContainsFunc(all, isIsolated) {
		return
	}
	if err := d.AgentSilent(ctx); err != nil {
		r.addWarning("isolation", "no agent answers on this host: what is removed of isolation is repaired, and files that change hold, from the next attach or repair on: "+err.Error(),
			"run allocnet agent, or allocnet repair after each change")
	}
}

// isIsolated tells whether a network keeps its attachments apart. Mistakes in its rules are reported as such.
func isIsolated(n *cniconf.Network) bool {
	rules, err := policy.Of(n)
	return err == nil && rules.Isolates()
}
