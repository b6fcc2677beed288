// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package traffic

import (
	"context"
	"strings"

	"github.com/allocnet/allocnet/cluster/forwarding"
	"github.com/allocnet/allocnet/isolation"
)

// hostFilters are the filters of a host beside those of allocnet.
type hostFilters interface {
	FateOf(flow forwarding.Flow) forwarding.Fate
}

func readFilters(ctx context.Context) hostFilters { return forwarding.CollectFilters(ctx) }

// What the filters of a host do with a flow.
const (
	filtersPass    = "pass"
	filtersDrop    = "drop"
	filtersUnknown = "unknown"
)

// filteredJSON is what the filters of the host do with the first packet of a flow, beside those of allocnet.
type filteredJSON struct {
	// Verdict is pass, drop or unknown.
	Verdict string `json:"verdict"`
	// By are the rules that drop it, or those of which it is not known.
	By []string `json:"by,omitempty"`
}

func filteredBy(fate forwarding.Fate) filteredJSON {
	switch {
	case len(fate.Drops) > 0:
		return filteredJSON{filtersDrop, fate.Drops}
	case len(fate.Doubts) > 0:
		return filteredJSON{filtersUnknown, fate.Doubts}
	}
	return filteredJSON{Verdict: filtersPass}
}

func (f filteredJSON) String() string {
	by := strings.Join(f.By, "; ")
	switch f.Verdict {
	case filtersDrop:
		return "dropped by " + by
	case filtersUnknown:
		return "not known: " + by
	}
	return "no other filter of this host drops it"
}

// passesBeside tells whether the packets of a flow do not pass this host, as those between an attachment that is kept apart inside and what is not on it.
func (t *traffic) passesBeside(f isolation.Flow) bool {
	isInside := func(e isolation.End) bool {
		m := e.Member(t.members)
		return m != nil && m.Inside
	}
	return (isInside(f.From) || isInside(f.To)) && !f.From.Host && !f.To.Host && f.From.Link == "" && f.To.Link == ""
}

// crossing is a flow as the filters of this host see it.
func (t *traffic) crossing(f isolation.Flow) forwarding.Flow {
	c := forwarding.Flow{
		Hook: forwarding.Forward, From: f.From.Address, To: f.To.Address, FromLink: f.From.Link, ToLink: f.To.Link,
		Protocol: f.Protocol, Port: f.Port, IsPublished: f.Published,
	}
	if f.From.Host {
		c.Hook = forwarding.Output
	} else if c.FromLink == "" {
		c.FromLink = forwarding.LinkTo(f.From.Address)
	}
	switch {
	case f.To.Host && f.From.Host:
		c.Hook, c.FromLink = forwarding.Input, "lo"
	case f.To.Host:
		c.Hook = forwarding.Input
	case c.ToLink == "":
		c.ToLink = forwarding.LinkTo(f.To.Address)
	}
	from, to := f.From.Member(t.members), f.To.Member(t.members)
	if from != nil && to != nil && !f.Published && !t.rules.AreRouted(*from, *to) {
		c.Bridge = from.Link
	}
	return c
}
