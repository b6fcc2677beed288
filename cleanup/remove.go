// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package cleanup

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/internal/errdefs"
	"github.com/allocnet/allocnet/internal/netfilter"
)

// Failure is an object that could not be removed.
type Failure struct {
	Object
	Err error
}

func (f Failure) Error() string { return fmt.Sprintf("%s: %v", f.Where, f.Err) }

// Kind is that of package errdefs.
func (Failure) Kind() errdefs.Kind { return errdefs.Failed }

func (f Failure) Unwrap() error { return f.Err }

// remove removes objects of a scan and returns those that are still there. All
// rules of a backend go in one transaction. It is safe to repeat, and to be
// killed at any instant: what shows the owner of other objects, or that it is dead, goes last,
// and stays while such an object may be left: a rule that is left must not lead to the next
// allocation with the address.
//
// host-local gives out no address meanwhile. A rule that names only an address
// stays when another allocation has a lease of that address by now.
func (f *scanResult) remove(ctx context.Context, objects []Object) []Failure {
	r := &removal{ctx: ctx, host: f.host.orDefault()}
	links, rules, files := r.sort(objects)
	r.forEach(links, func(o Object) error { return o.link.remove(r.host.kernel) })
	unlock, err := lockLeases(ctx, f.dirsToLock(objects))
	if err != nil {
		r.forEach(append(rules, files...), func(Object) error { return err })
		return r.failures
	}
	defer unlock()
	r.rules(f.withoutReassigned(rules, objects))
	if f.look != nil {
		r.look(f.look)
	}
	r.forEach(files, func(o Object) error {
		switch {
		case f.unlisted != nil:
			return errors.New("kept, because it may show the owner of objects that could not be listed")
		case r.failed(o.Owner):
			return errors.New("kept, because it shows the owner of the objects that are left")
		}
		return o.removeFile()
	})
	return r.failures
}

// isGone tells whether the object is a file that has been removed since the scan.
func (o Object) isGone() bool {
	if o.file == nil {
		return false
	}
	_, err := os.Lstat(o.file.path)
	return errors.Is(err, fs.ErrNotExist)
}

func (o Object) removeFile() error {
	if o.resolvConf != nil {
		return o.resolvConf.Remove()
	}
	return o.file.remove()
}

type removal struct {
	ctx      context.Context
	host     *host
	mu       sync.Mutex
	failures []Failure
}

func (r *removal) sort(objects []Object) (links, rules, files []Object) {
	var leases, results []Object
	for _, o := range objects {
		switch {
		case o.Blocked != "":
			r.fail(o, errors.New(o.Blocked))
		case o.link != nil:
			links = append(links, o)
		case o.resolvConf != nil:
			files = append(files, o)
		case o.file == nil:
			rules = append(rules, o)
		case o.Kind == Cache:
			results = append(results, o)
		case o.Kind == Lease:
			leases = append(leases, o)
		default:
			files = append(files, o)
		}
	}
	return links, rules, slices.Concat(files, leases, results)
}

func (r *removal) forEach(objects []Object, remove func(Object) error) {
	for _, o := range objects {
		r.fail(o, remove(o))
	}
}

func (r *removal) fail(o Object, err error) {
	if err == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failures = append(r.failures, Failure{o, err})
}

// look adds failures of owners that have none: they say more.
func (r *removal) look(look func() []Failure) {
	for _, f := range look() {
		if !r.failed(f.Owner) {
			r.fail(f.Object, f.Err)
		}
	}
}

func (r *removal) failed(owner Owner) bool {
	return slices.ContainsFunc(r.failures, func(f Failure) bool { return f.Owner.Allocation == owner.Allocation })
}

// rules removes those of all backends at once, then the conntrack entries of the
// UDP ports that they published.
func (r *removal) rules(objects []Object) {
	tables := map[backend][]Object{}
	nft := map[string][]Object{}
	var flows []flow
	ctx, stop := r.host.limit(r.ctx)
	defer stop()
	for _, o := range objects {
		if o.source != nil {
			r.fail(o, r.host.programs.removeSource(ctx, *o.source))
			continue
		}
		if o.nft != nil {
			nft[o.nft.table.String()] = append(nft[o.nft.table.String()], o)
			continue
		}
		tables[o.chain.backend] = append(tables[o.chain.backend], o)
		flows = append(flows, o.chain.udp...)
	}
	var group errgroup.Group
	remove := func(objects []Object, remove func(context.Context, programs, []Object) []error) {
		group.Go(func() error {
			for i, err := range remove(ctx, r.host.programs, objects) {
				r.fail(objects[i], err)
			}
			return nil
		})
	}
	for b, objects := range tables {
		remove(objects, b.remove)
	}
	for _, objects := range nft {
		remove(objects, objects[0].nft.table.remove)
	}
	_ = group.Wait() // errors are in failures
	if err := deleteFlows(ctx, r.host.kernel, flows); err != nil {
		r.fail(Object{Kind: Ports, Where: "conntrack"}, err)
	}
}

// dirsToLock returns the directories of the leases among the objects. A rule
// that names only an address could be of any.
func (f *scanResult) dirsToLock(objects []Object) []string {
	var dirs []string
	for _, o := range objects {
		if o.addressOnly {
			return append([]string{}, f.leaseDirs...)
		}
		if o.file != nil && o.file.leases != "" {
			dirs = append(dirs, o.file.leases)
		}
	}
	return dirs
}

// withoutReassigned leaves out the rules of addresses that another allocation has leased
// since the scan. It is called with host-local's locks held.
func (f *scanResult) withoutReassigned(rules, removed []Object) []Object {
	freed := map[string]bool{}
	for _, o := range removed {
		if o.file != nil && o.file.leases != "" && o.file.unchanged() {
			freed[o.file.path] = true
		}
	}
	var list []Object
	for _, o := range rules {
		if !o.addressOnly || !f.leased(o.Addresses[0], freed) {
			list = append(list, o)
		}
	}
	return list
}

func (f *scanResult) leased(address netip.Addr, freed map[string]bool) bool {
	return slices.ContainsFunc(f.leaseDirs, func(dir string) bool {
		path := filepath.Join(dir, address.String())
		_, err := os.Lstat(path)
		return err == nil && !freed[path]
	})
}

// deleteFlows removes the conntrack entries of published UDP ports. As long as
// packets arrive, the kernel would go on sending them to an address that is gone.
func deleteFlows(ctx context.Context, k kernel, flows []flow) error {
	if len(flows) == 0 {
		return nil
	}
	err := k.forgetFlows(ctx, func(of netfilter.Flow) bool {
		return slices.ContainsFunc(flows, func(f flow) bool { return f.has(of) })
	})
	if err != nil {
		return fmt.Errorf("remove conntrack entries of published UDP ports: %w", err)
	}
	return nil
}

// has tells whether a flow is one to the ports that DNAT sent to the address.
func (f flow) has(of netfilter.Flow) bool {
	port := of.Original.DestinationPort
	return of.Protocol == unix.IPPROTO_UDP && f.first <= port && port <= f.last && of.Reply.Source == f.address
}
