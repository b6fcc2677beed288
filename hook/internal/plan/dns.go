// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package plan

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/allocnet/allocnet/hook/internal/onrecord"
	"github.com/allocnet/allocnet/policy"
)

// selectDNS returns whose DNS the allocation gets: the request's choice, else the primary
// network's option, else the host's, else the primary's. A network that is not attached
// is refused.
func (p *Plan) selectDNS(r Request, host policy.Source) (string, error) {
	selected, source := cmp.Or(r.DNS, host.DNS, onrecord.PrimaryDNS), ""
	if r.DNS == "" && host.DNS != "" {
		source = host.File
	}
	if r.Primary != nil && r.DNS == "" {
		if primary := p.primary(); primary.rules.DNS != "" {
			selected, source = primary.rules.DNS, primary.network.Path
		}
	}
	return selected, p.checkDNS(selected, source)
}

func (p *Plan) primary() Attachment {
	return p.Added[slices.IndexFunc(p.Added, func(a Attachment) bool { return a.Attachment.Primary })]
}

// checkDNS refuses a network that the plan does not have. source is the file that names
// it; empty: the request does.
func (p *Plan) checkDNS(selected, source string) error {
	if selected == onrecord.PrimaryDNS || selected == onrecord.MergedDNS {
		return nil
	}
	var attached []string
	for _, a := range p.Added {
		if a.Attachment.Network == selected {
			return nil
		}
		attached = append(attached, a.Attachment.Network)
	}
	slices.Sort(attached)
	reason := fmt.Sprintf("is no network of the allocation: want %s, %s, or one of %s", onrecord.PrimaryDNS, onrecord.MergedDNS, strings.Join(slices.Compact(attached), ", "))
	if source != "" {
		reason += ", in " + source
	}
	return &RequestError{"dns", selected, reason}
}
