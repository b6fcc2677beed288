// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package remove

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/cniconf"
	"github.com/allocnet/allocnet/hook/internal/operation"
	"github.com/allocnet/allocnet/internal/errdefs"
	"github.com/allocnet/allocnet/internal/files"
	"github.com/allocnet/allocnet/internal/leases"
	"github.com/allocnet/allocnet/selection"
)

// RemovedNetwork is what Network does to a network.
type RemovedNetwork struct {
	Name string `json:"name"`
	// Removed are the objects that are gone, in their order, or that would be.
	Removed []string `json:"removed"`
	// Kept are those that stay, each with the reason.
	Kept []string `json:"kept,omitempty"`
}

// removal is the removal of a network.
type removal struct {
	env     *operation.Env
	network *cniconf.Network
	catalog *cniconf.Catalog
	dryRun  bool
	RemovedNetwork
}

// Network removes a network that nothing uses: bridges that allocnet has made for it alone, what its IPAM plugin notes of
// addresses that are free, and its file. That goes last: until then the same call goes on after a kill. Meanwhile nothing is
// attached.
func Network(ctx context.Context, e *operation.Env, name string, dryRun bool) (*RemovedNetwork, error) {
	unlock, err := e.Store.LockHost(ctx)
	if err != nil {
		return nil, err
	}
	defer unlock()
	catalog, err := e.Config.Catalog()
	if err != nil {
		return nil, err
	}
	n, err := catalog.Lookup(name)
	if err != nil {
		return nil, err
	}
	r := &removal{e, n, catalog, dryRun, RemovedNetwork{Name: name, Removed: []string{}}}
	users, err := r.users(ctx)
	if err != nil {
		return nil, err
	}
	if len(users) > 0 {
		return nil, errdefs.As(errdefs.Conflict, fmt.Errorf("network %q is in use: %s", name, strings.Join(users, "; ")))
	}
	for _, remove := range []func(context.Context) error{r.bridges, r.leases, r.file} {
		if err := remove(ctx); err != nil {
			return nil, err
		}
	}
	return &r.RemovedNetwork, nil
}

// users returns what needs the network: attachments, also those of other runtimes that libcni's cache has, addresses, and
// networks that name it.
func (r *removal) users(ctx context.Context) (users []string, err error) {
	if users, err = r.attachments(ctx); err != nil {
		return nil, err
	}
	for _, pool := range r.own() {
		leased, err := pool.Leased()
		if err != nil {
			return nil, err
		}
		if len(leased) > 0 && len(users) == 0 {
			users = append(users, fmt.Sprintf("%s has a lease in %s, which allocnet gc removes if nothing has the address", leased[0], pool.Leases))
		}
	}
	for _, other := range r.catalog.Networks {
		if other.Name != r.network.Name && names(other, r.network.Name) {
			users = append(users, fmt.Sprintf("network %q names it (%s)", other.Name, other.Path))
		}
	}
	return users, nil
}

// attachments returns those to the network.
func (r *removal) attachments(ctx context.Context) (users []string, err error) {
	valid, err := validAttachments(ctx, r.env)
	if err != nil {
		return nil, err
	}
	allocations := map[string]string{} // by container ID
	for record, err := range r.env.Store.List(ctx) {
		if err != nil {
			return nil, err
		}
		for _, a := range record.Attachments {
			allocations[a.ContainerID] = record.Allocation.ID
		}
	}
	for _, a := range valid[r.network.Name] {
		user := fmt.Sprintf("container %s of another runtime has %s", a.ContainerID, a.IfName)
		if id := allocations[a.ContainerID]; id != "" {
			user = fmt.Sprintf("allocation %s has %s", id, a.IfName)
		}
		users = append(users, user)
	}
	slices.Sort(users)
	return slices.Compact(users), nil // the cache repeats the records
}

// own returns the pools of host-local, which the network has for itself. Those of allocnet-ipam others may share.
func (r *removal) own() []cniconf.Pool {
	return slices.DeleteFunc(r.network.Pools(), func(p cniconf.Pool) bool { return p.Shared != nil })
}

// names tells whether a conflist of allocnet-cni attaches a network.
func names(other *cniconf.Network, name string) bool {
	for _, p := range other.List.Plugins {
		var conf struct {
			Primary  string `json:"primary"`
			Networks string `json:"networks"`
		}
		if p.Network.Type != cniconf.OwnPlugin || json.Unmarshal(p.Bytes, &conf) != nil {
			continue // the plugin reports a mistake
		}
		elements, _ := selection.Parse(conf.Networks)
		if conf.Primary == name || slices.ContainsFunc(elements, func(e selection.Element) bool { return e.Name == name }) {
			return true
		}
	}
	return false
}

func (r *removal) keep(what, why string) { r.Kept = append(r.Kept, what+": "+why) }

// bridges removes those that the network has for itself.
func (r *removal) bridges(context.Context) error {
	var own []netip.Prefix
	for _, h := range r.network.HostAddresses() {
		own = append(own, h.Address)
	}
	for _, d := range r.network.Devices() {
		if !d.Bridge {
			continue
		}
		what := "bridge " + d.Name
		if other := r.sharing(d.Name); other != "" {
			r.keep(what, fmt.Sprintf("network %q is on it, too", other))
			continue
		}
		why, err := r.env.Config.Host.WhyBridgeStays(d.Name, own)
		if err != nil {
			return err
		}
		if why != "" {
			r.keep(what, why)
			continue
		}
		_, found, err := r.env.Config.Host.FindBridge(d.Name)
		if err != nil || !found {
			return err
		}
		if !r.dryRun {
			if err := r.env.Config.Host.RemoveBridge(d.Name); err != nil {
				return err
			}
		}
		r.Removed = append(r.Removed, what)
	}
	return nil
}

// sharing returns another network that is on a link; empty if there is none.
func (r *removal) sharing(link string) string {
	for _, other := range slices.Concat(r.catalog.Networks, r.catalog.Shadowed) {
		if other != r.network && slices.ContainsFunc(other.Devices(), func(d cniconf.Device) bool { return d.Name == link }) {
			return other.Name
		}
	}
	return ""
}

// leases removes the directories of host-local, which has no lease in them.
func (r *removal) leases(ctx context.Context) error {
	for _, pool := range r.own() {
		entries, err := files.IfExists(os.ReadDir(pool.Leases))
		if err != nil {
			return err
		}
		if entries == nil {
			continue
		}
		if other := besideNotes(entries); other != "" {
			r.keep(pool.Leases, "host-local has not made "+other)
			continue
		}
		if !r.dryRun {
			if err := removeNotes(ctx, pool.Leases); err != nil {
				return err
			}
		}
		r.Removed = append(r.Removed, pool.Leases)
	}
	return nil
}

// besideNotes returns a file that is not one of those that host-local keeps beside leases; empty if there is none.
func besideNotes(entries []fs.DirEntry) string {
	for _, e := range entries {
		if !leases.IsNote(e.Name()) {
			return e.Name()
		}
	}
	return ""
}

// removeNotes removes a directory without leases. An address that another runtime has got meanwhile keeps it.
func removeNotes(ctx context.Context, dir string) error {
	unlock, err := files.LockFile(ctx, filepath.Join(dir, leases.LockName), unix.LOCK_EX)
	if err != nil {
		return err
	}
	defer unlock()
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	if other := besideNotes(entries); other != "" {
		return fmt.Errorf("%s: there is %s by now: call again", dir, other)
	}
	for _, e := range entries {
		if err := os.Remove(filepath.Join(dir, e.Name())); err != nil {
			return err
		}
	}
	return os.Remove(dir)
}

// file removes the configuration.
func (r *removal) file(context.Context) error {
	path := r.network.Path
	if !r.dryRun {
		if err := files.Remove(path); err != nil {
			return fmt.Errorf("remove the file of network %q: %w", r.network.Name, err)
		}
	}
	r.Removed = append(r.Removed, path)
	for _, other := range r.catalog.Shadowed {
		if other.Name == r.network.Name {
			r.keep(other.Path, "has a network of this name, too, which is used from now on")
		}
	}
	return nil
}
