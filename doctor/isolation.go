// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package doctor

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

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
	for _, n := range all {
		if p, err := policy.Of(n); err == nil && p.Inside() {
			r.addWarning(n.Path, fmt.Sprintf("network %q is isolated inside of allocations: what a task sends and gets with CAP_NET_ADMIN or CAP_NET_RAW, as a privileged one, is not, and the host's own packets are those of any other machine", n.Name),
				"have drivers give tasks neither, as Docker of Nomad does unless allow_caps or allow_privileged say otherwise, or use a network with bridge or ptp")
		}
	}
	if len(rules.Egress)+len(rules.Allow) == 0 && !slices.ContainsFunc(all, isIsolated) {
		return
	}
	d.learned(r)
	if d.AgentSilent == nil {
		return
	}
	if err := d.AgentSilent(ctx); err != nil {
		r.addWarning("isolation", "no agent answers on this host: what is removed of isolation is repaired, and files that change hold, from the next attach or repair on; rules know of allocations on other hosts what they did, and other hosts of those on this one: "+err.Error(),
			"run allocnet agent, or allocnet repair after each change")
	}
}

// mostUnread is how old what is known of other hosts is where an agent runs and the store of the pool answers, and more.
const mostUnread = 10 * time.Minute

// learned reports pools of which the host does not learn any more which attachments other hosts have.
func (d *Doctor) learned(r *Report) {
	if d.Store == nil {
		return
	}
	all, err := d.Store.Isolation().Learned()
	if err != nil {
		r.addError("isolation", "what is known of attachments on other hosts cannot be read: "+err.Error(), "correct the state directory, or remove the file: the agent writes it again")
	}
	for _, l := range all {
		if age := time.Since(l.Read); age > mostUnread {
			r.addWarning("isolation", fmt.Sprintf("attachments on other hosts with addresses of pool %s are known as they were %s ago: later ones are allowed nothing, and after %s the jobs of all count as unknown",
				l.Pool, age.Round(time.Minute), isolation.MostUnconfirmed), "see allocnet cluster for why the store of the pool is not read")
		}
	}
}

// isIsolated tells whether a network keeps its attachments apart, or those of some jobs. Mistakes in its rules are reported as such.
func isIsolated(n *cniconf.Network) bool {
	rules, err := policy.Of(n)
	return err == nil && (rules.Isolates() || rules.Narrow)
}
