// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package plan

import (
	"fmt"

	"github.com/allocnet/allocnet/allocation"
	"github.com/allocnet/allocnet/cniconf"
	"github.com/allocnet/allocnet/policy"
	"github.com/allocnet/allocnet/state"
)

// isolate decides which attachments the host knows by their addresses, and refuses those that it could not keep apart.
func (p *Plan) isolate(r Request, f Facts) error {
	narrowing := p.narrowing(r)
	for i := range p.Added {
		added := &p.Added[i]
		apart := added.rules.Isolates() || narrowing != (allocation.Narrowing{})
		inProcess := added.Attachment.Executor == state.InProcess
		if (apart || added.rules.Narrow) && !inProcess {
			if err := policy.CheckIsolation(added.network, func(*cniconf.Network) error { return f.WhyPlugins(added.List, added.rules.Executor) }); err != nil {
				return err
			}
		}
		joins, err := f.Joins(apart)
		if err != nil {
			return fmt.Errorf("network %q: %w", added.network.Name, err)
		}
		inside := added.rules.Inside()
		if joins && (inside || inProcess && hasEnd(added.network.Chain())) {
			added.Attachment.Isolation = &state.Isolation{
				Level: string(added.rules.Level()), Antispoof: added.rules.Guards(), NoHost: !added.rules.ReachedByHost(), Inside: inside, Narrowing: narrowing,
			}
		}
	}
	return nil
}

// narrowing is what the job leaves of its traffic: what it says, or what it has said of the allocation as a whole.
func (p *Plan) narrowing(r Request) allocation.Narrowing {
	if r.Narrowing != (allocation.Narrowing{}) {
		return r.Narrowing
	}
	for _, a := range p.Existing {
		if a.Task == "" && a.Isolation != nil {
			return a.Isolation.Narrowing
		}
	}
	return r.Narrowing
}

// hasEnd tells whether the host has an end of each attachment, by which it knows its addresses before anything passes. Those of DHCP
// are known later, as those that plugins give.
func hasEnd(chain []cniconf.Plugin) bool {
	return len(chain) > 0 && chain[0].HasEnd() && chain[0].IPAMType != "" && chain[0].IPAMType != "dhcp"
}
