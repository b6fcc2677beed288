// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package cleanup

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/allocnet/allocnet/internal/errdefs"
	"github.com/allocnet/allocnet/internal/netfilter"
	"github.com/allocnet/allocnet/state"
)

// LeftError is what a plugin has left whose DEL reports success.
type LeftError struct {
	Plugin  string
	Objects []string
}

func (e *LeftError) Error() string {
	return fmt.Sprintf("DEL of %s reports success, and there is still: %s", e.Plugin, strings.Join(e.Objects, ", "))
}

// Kind is that of package errdefs.
func (*LeftError) Kind() errdefs.Kind { return errdefs.Failed }

// Left looks for what a plugin of an attachment makes on the host, after a DEL that reports success: what is there is a
// *LeftError. It looks for names that are on record and lists nothing of others, so that it costs a fraction of a scan.
// Leases and cached results are not looked for.
func (c *Cleaner) Left(ctx context.Context, a state.Attachment, plugin string) error {
	h := c.host.orDefault()
	rules, err := h.rulesLeft(ctx, a, plugin)
	links, linksErr := h.linksLeft(a, plugin)
	files, filesErr := h.filesLeft(a, plugin)
	if err := errors.Join(err, linksErr, filesErr); err != nil {
		return fmt.Errorf("DEL of %s reports success, and what it has left is not known: %w", plugin, err)
	}
	if left := slices.Concat(rules, links, files); len(left) > 0 {
		return &LeftError{plugin, left}
	}
	return nil
}

func (h *host) rulesLeft(ctx context.Context, a state.Attachment, plugin string) (left []string, err error) {
	ctx, stop := h.limit(ctx)
	defer stop()
	var searches []netfilter.RuleSearch
	for _, l := range h.catalog.find(plugin).leaves {
		searches = append(searches, l.searches(a)...)
	}
	if len(searches) == 0 {
		return nil, nil
	}
	found, err := h.programs.searchRules(ctx, searches)
	for i, s := range searches {
		if found[i] {
			left = append(left, s.String())
		}
	}
	return left, err
}

func (l *leak) searches(a state.Attachment) (all []netfilter.RuleSearch) {
	owner := ownerOf(a.Network, a.ContainerID, a.Interface)
	for _, p := range l.chains {
		for _, family := range []netfilter.Family{netfilter.IPv4, netfilter.IPv6} {
			all = append(all, netfilter.RuleSearch{Family: family, Table: p.table, Chain: p.name.of(owner)})
		}
	}
	for _, p := range l.rules {
		for _, address := range resultAddresses(a.Result) {
			all = append(all, netfilter.RuleSearch{Family: netfilter.FamilyOf(address.AsSlice()), Table: p.table, Chain: p.chain, Address: address})
		}
	}
	for _, t := range l.tables {
		for _, chain := range t.chains {
			all = append(all, netfilter.RuleSearch{Family: t.family, Table: t.name, Chain: chain, Comment: t.isOf(owner)})
		}
		for _, name := range t.own.of(owner) {
			all = append(all, netfilter.RuleSearch{Family: t.family, Table: t.name, Chain: name})
		}
	}
	return all
}

func (t nftTable) isOf(owner Owner) func(comment string) bool {
	return func(comment string) bool {
		named, key, ok := parseOwner(t.comment, comment)
		if t.key != nil {
			return key == t.key(owner)
		}
		return ok && named.ContainerID == owner.ContainerID
	}
}

// linksLeft returns the links of an attachment on the host that a plugin makes. Those of its result are of the first in the chain.
func (h *host) linksLeft(a state.Attachment, plugin string) (left []string, err error) {
	if types := pluginTypes(a); len(types) > 0 && types[0] == plugin {
		var ends []*link
		ends, err = h.hostEnds(a)
		for _, end := range ends {
			if end.mac != "" && end.kind == "veth" { // else it may be another one of the name
				left = append(left, "link "+end.name)
			}
		}
	}
	macs, owner := hostMACs(a), ownerOf(a.Network, a.ContainerID, a.Interface)
	for _, l := range h.catalog.find(plugin).leaves {
		for _, p := range l.links {
			made := p.name.of(owner)
			name, failed := h.kernel.findLink(made, p.linkType, macs[made])
			if err = errors.Join(err, failed); name != "" {
				left = append(left, "link "+name)
			}
		}
	}
	return left, err
}

func (h *host) filesLeft(a state.Attachment, plugin string) (left []string, err error) {
	for _, l := range h.catalog.find(plugin).leaves {
		for _, f := range l.files {
			for _, dir := range f.in.list([]json.RawMessage{a.ConfList}) {
				path := filepath.Join(dir, f.key(ownerOf(a.Network, a.ContainerID, a.Interface)))
				switch _, failed := os.Lstat(path); {
				case failed == nil:
					left = append(left, path)
				case !errors.Is(failed, fs.ErrNotExist):
					err = errors.Join(err, failed)
				}
			}
		}
	}
	return left, err
}

var errUnknownForm = errors.New("it has a form in which it was not made, as after a saved ruleset was loaded: delete it, for example with nft -a list ruleset and nft delete rule")

// stillLeft returns the rules that plugins have left, after those that were found have been removed. Only these are looked for:
// the address of another attachment may be that of the next one by now.
func (h *host) stillLeft(ctx context.Context, leftovers []state.Leftover) (failures []Failure) {
	for _, l := range leftovers {
		for _, s := range l.Suspects {
			of, ok := errors.AsType[*LeftError](s.DelErr)
			if !ok {
				continue
			}
			left, err := h.rulesLeft(ctx, s.Attachment, of.Plugin)
			if len(left) > 0 {
				err = errors.Join(err, errUnknownForm)
			}
			if err != nil {
				owner := ownerOf(s.Attachment.Network, s.Attachment.ContainerID, s.Attachment.Interface)
				failures = append(failures, Failure{Object{Owner: owner, Where: cmp.Or(strings.Join(left, ", "), "rules of "+of.Plugin)}, err})
			}
		}
	}
	return failures
}

func (system) searchRules(ctx context.Context, searches []netfilter.RuleSearch) ([]bool, error) {
	found, err := netfilter.SearchRules(ctx, searches)
	for i, s := range searches {
		legacy := s.Family == netfilter.IPv4 || s.Family == netfilter.IPv6
		if legacy && s.Comment == nil && !found[i] { // only nftables has comments of its own
			var failed error
			found[i], failed = netfilter.HasLegacy(s.Family, s.Table, s.Chain, s.Address)
			err = errors.Join(err, failed)
		}
	}
	return found, err
}
