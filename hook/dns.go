// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package hook

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/allocnet/allocnet/internal/resolvconf"
	"github.com/allocnet/allocnet/policy"
	"github.com/allocnet/allocnet/state"
)

// Selections of an allocation's DNS, besides the name of one of its networks.
const (
	// PrimaryDNS: that of the primary network.
	PrimaryDNS = "primary"
	// MergedDNS: the primary's, then those of the extra networks in the order of their
	// interfaces' numbering.
	MergedDNS = "merge"
)

// selectDNS returns whose DNS the allocation gets: the request's choice, else the primary
// network's option, else the host's, else the primary's. A network that is not attached
// is refused.
func (e *Engine) selectDNS(r Request, p *plan) (string, error) {
	host, err := policy.Load(e.config.PolicyFile)
	if err != nil {
		return "", err
	}
	selected, source := cmp.Or(r.DNS, host.DNS, PrimaryDNS), ""
	if r.DNS == "" && host.DNS != "" {
		source = host.File
	}
	if r.Primary != nil && r.DNS == "" {
		network := p.primary().network
		options, err := policy.Of(network)
		if err != nil {
			return "", err
		}
		if options.DNS != "" {
			selected, source = options.DNS, network.Path
		}
	}
	return selected, p.checkDNS(selected, source)
}

// primary returns the primary of a plan that has one.
func (p *plan) primary() planned {
	return p.added[slices.IndexFunc(p.added, func(a planned) bool { return a.attachment.Primary })]
}

// checkDNS refuses a network that the plan does not have. source is the file that names
// it; empty: the request does.
func (p *plan) checkDNS(selected, source string) error {
	if selected == PrimaryDNS || selected == MergedDNS {
		return nil
	}
	var attached []string
	for _, a := range p.added {
		if a.attachment.Network == selected {
			return nil
		}
		attached = append(attached, a.attachment.Network)
	}
	slices.Sort(attached)
	reason := fmt.Sprintf("is no network of the allocation: want %s, %s, or one of %s", PrimaryDNS, MergedDNS, strings.Join(slices.Compact(attached), ", "))
	if source != "" {
		reason += ", in " + source
	}
	return &RequestError{"dns", selected, reason}
}

// selectedDNS returns the DNS of an allocation from that of its attachments, in their
// order, and the values in it that resolvers do not accept or use.
func selectedDNS(selection string, attachments []Attachment) (DNS, []string) {
	var found []resolvconf.Config
	for _, a := range attachments {
		c := resolvconf.Config(a.DNS)
		if a.Phase != state.Attached && a.Phase != Reattaching || !hasSelectedDNS(selection, a) || c.IsEmpty() {
			continue
		}
		found = append(found, c)
		if selection != MergedDNS { // of several attachments to a network the first that has any
			break
		}
	}
	normal, dropped := resolvconf.Merge(found...).Normalize()
	return DNS(normal), dropped
}

// hasSelectedDNS tells whether the DNS of an attachment is selected. A network can have the
// name "primary" or "merge", which select others.
func hasSelectedDNS(selection string, a Attachment) bool {
	switch cmp.Or(selection, PrimaryDNS) {
	case MergedDNS:
		return true
	case PrimaryDNS:
		return a.Primary
	}
	return a.Network == selection
}

// describeNew is describe after a change of the attachments. It logs the values of DNS
// that a resolver would not use.
func (o *operation) describeNew() (*Allocation, error) {
	a, err := describe(o.record)
	if err != nil {
		return nil, err
	}
	if _, dropped := selectedDNS(a.DNSSelection, a.Attachments); len(dropped) > 0 {
		o.log.Warn(fmt.Sprintf("DNS values are not used: a resolver takes addresses of at most %d name servers, and words", resolvconf.MaxServers), "dns", a.DNSSelection, "values", dropped)
	}
	return a, nil
}
