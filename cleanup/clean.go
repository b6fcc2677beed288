// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package cleanup

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/hashicorp/go-hclog"

	"github.com/allocnet/allocnet/internal/netns"
	"github.com/allocnet/allocnet/state"
)

// Cleaner removes what the attachments of one allocation left. It is the
// engine's hook.Cleaner.
type Cleaner struct {
	// CacheDir is libcni's. Default: /var/lib/cni.
	CacheDir string
	// Logger gets a line for each object that is removed. Default: none.
	Logger hclog.Logger
}

// Clean removes all that the catalogue of the package knows of these
// attachments: rules, leases, devices, files. Where an attachment has an error,
// its DEL failed; then plugins that the catalogue does not know are an error,
// because nobody can say what they left. Repeated it finds nothing to do.
func (c *Cleaner) Clean(ctx context.Context, a state.Allocation, attachments []state.Attachment) error {
	scanner := Scanner{CacheDir: c.CacheDir}
	for _, attachment := range attachments {
		scanner.ConfLists = append(scanner.ConfLists, attachment.ConfList)
		scanner.Known = append(scanner.Known, ownerOf(attachment.Network, attachment.ContainerID, attachment.Interface))
	}
	found, err := scanner.Scan(ctx)
	for _, p := range found.Problems {
		c.log().Warn("skipped", "path", p.Where, "reason", p.Reason)
	}
	objects, lookErr := found.left(a, attachments)
	errs := []error{err, lookErr}
	for _, failure := range found.Remove(ctx, objects) {
		errs = append(errs, failure)
	}
	for _, o := range objects {
		c.log().Info("removed by force", "kind", o.Kind, "object", o.Where, "allocation", a.ID)
	}
	c.reportZones(attachments)
	errs = append(errs, forget(published(attachments)), unknownPlugins(attachments))
	return errors.Join(errs...)
}

// reportZones says where firewalld may still let addresses through. Its zones
// are its own.
func (c *Cleaner) reportZones(attachments []state.Attachment) {
	for _, a := range attachments {
		for _, plugin := range plugins(a.ConfList) {
			if plugin.Type == "firewall" && plugin.Backend == "firewalld" {
				c.log().Warn("a zone of firewalld may still have these addresses as sources; see: firewall-cmd --get-active-zones",
					"network", a.Network, "addresses", resultAddresses(a.Result))
			}
		}
	}
}

func (c *Cleaner) log() hclog.Logger {
	if c.Logger == nil {
		return hclog.NewNullLogger()
	}
	return c.Logger
}

// left returns the objects of the attachments, the interfaces first.
func (f *Found) left(a state.Allocation, attachments []state.Attachment) ([]Object, error) {
	var objects []Object
	addresses := map[netip.Addr]bool{}
	alive := standing(a)
	for _, attachment := range attachments {
		objects = append(objects, linksOf(a, attachment, alive)...)
		for _, address := range resultAddresses(attachment.Result) {
			addresses[address] = true
		}
	}
	for _, o := range f.Objects {
		if !slices.ContainsFunc(attachments, func(at state.Attachment) bool { return o.Owner.of(at) }) {
			continue
		}
		objects = append(objects, o)
		for _, address := range o.Addresses {
			addresses[address] = true
		}
	}
	rules, err := f.firewallLeft(a, addresses)
	return append(objects, rules...), err
}

// of tells whether the owner can be the attachment. Another attachment, or
// another runtime's, has another container ID or another network.
func (o Owner) of(a state.Attachment) bool {
	return o.ContainerID == a.ContainerID && (o.Network == "" || o.Network == a.Network) && (o.Interface == "" || o.Interface == a.Interface)
}

// firewallLeft returns the rules of the addresses, which were the attachments',
// unless somebody else uses an address by now.
func (f *Found) firewallLeft(a state.Allocation, addresses map[netip.Addr]bool) ([]Object, error) {
	var rules []Object
	for _, o := range f.Objects {
		if o.Kind == Firewall && addresses[o.Addresses[0]] {
			rules = append(rules, o)
		}
	}
	if len(rules) == 0 {
		return nil, nil
	}
	if err := f.LookInside(a.Netns); err != nil {
		return nil, fmt.Errorf("find out who uses the addresses: %w", err)
	}
	return slices.DeleteFunc(rules, func(o Object) bool { return f.InUse[o.Addresses[0]] != "" }), nil
}

// standing tells whether the allocation's namespace is still there.
func standing(a state.Allocation) bool {
	ns, err := netns.OpenSame(a.Netns, a.NetnsID)
	if err != nil {
		return false
	}
	_ = ns.Close() // only looked at
	return true
}

// published returns the UDP ports that the attachments publish.
func published(attachments []state.Attachment) []flow {
	var flows []flow
	for _, a := range attachments {
		data, err := json.Marshal(a.CapabilityArgs["portMappings"])
		if err != nil {
			continue // it came from JSON
		}
		var mappings []struct {
			HostPort uint16
			Protocol string
		}
		if json.Unmarshal(data, &mappings) != nil {
			continue // so the plugin could not read it either
		}
		for _, m := range mappings {
			if strings.EqualFold(m.Protocol, "udp") {
				for _, address := range resultAddresses(a.Result) {
					flows = append(flows, flow{m.HostPort, address})
				}
			}
		}
	}
	return flows
}
