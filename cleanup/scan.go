// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package cleanup

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/allocnet/allocnet/internal/netns"
)

// scanner lists what CNI made on the host. The zero value is usable.
type scanner struct {
	// cacheDir is libcni's. Default: /var/lib/cni.
	cacheDir string
	// confLists are those of known networks: they say where else plugins
	// keep files. Default: only the plugins' own directories are searched.
	confLists []json.RawMessage
	// known are owners that could have left something. What shows only a
	// hash is attributed to one of them. Default: those that other objects
	// name.
	known []Owner
}

// defaultCacheDir is libcni's.
const defaultCacheDir = "/var/lib/cni"

// scan lists the objects of all kinds. The error joins those of the sources
// that could not be listed; what the others have is returned all the same.
func (s scanner) scan(ctx context.Context) (*Found, error) {
	if s.cacheDir == "" {
		s.cacheDir = defaultCacheDir
	}
	fromCache, conflists := scanCache(s.cacheDir)
	p := placesOf(append(conflists, s.confLists...))
	found := &fromCache
	maps.Copy(found.alive, pinned())
	found.leaseDirs = leaseDirs(p.leases)
	err := found.gather(s.sources(ctx, p, found.leaseDirs))
	attribute(found.Objects, append(owners(found.Objects), s.known...))
	return found, err
}

// source lists one kind of objects.
type source func() (Found, error)

func (s scanner) sources(ctx context.Context, p places, leaseDirs []string) map[string]source {
	sources := map[string]source{"ifb devices": scanIfbs}
	for _, b := range installed() {
		sources[b.name] = func() (Found, error) { return b.scan(ctx) }
	}
	for _, t := range nftTables {
		sources[t.String()] = func() (Found, error) { return t.scan(ctx) }
	}
	for _, dir := range leaseDirs {
		sources[dir] = func() (Found, error) { return scanLeases(dir), nil }
	}
	for _, dir := range p.tuning {
		sources[dir] = func() (Found, error) { return scanTuning(dir), nil }
	}
	return sources
}

// gather asks all sources at once and adds what they have.
func (f *Found) gather(sources map[string]source) error {
	var group errgroup.Group
	var mu sync.Mutex
	var errs []error
	results := map[string]Found{}
	for name, scan := range sources {
		group.Go(func() error {
			part, err := scan()
			mu.Lock()
			defer mu.Unlock()
			results[name] = part
			if err != nil {
				errs = append(errs, fmt.Errorf("list %s: %w", name, err))
			}
			return nil
		})
	}
	_ = group.Wait() // errors are in errs: all are wanted
	for _, name := range slices.Sorted(maps.Keys(results)) {
		f.Objects = append(f.Objects, results[name].Objects...)
		f.Problems = append(f.Problems, results[name].Problems...)
	}
	return errors.Join(errs...)
}

// pinned returns the allocations after which a namespace is named.
func pinned() map[string]string {
	alive := map[string]string{}
	entries, _ := os.ReadDir(netns.DefaultDir) // none: nobody pinned one
	for _, entry := range entries {
		if path := filepath.Join(netns.DefaultDir, entry.Name()); netns.Exists(path) {
			alive[entry.Name()] = "namespace " + path
		}
	}
	return alive
}

// scanNamespaces fills in which addresses are used in network namespaces, except in
// those whose identities are given. A namespace that cannot be entered is an
// error.
func (f *Found) scanNamespaces(except map[string]bool) error {
	f.inUse = map[netip.Addr]string{}
	paths, err := netns.Others()
	if err != nil {
		return err
	}
	for _, path := range paths {
		if err := f.scanNamespace(path, except); err != nil {
			return err
		}
	}
	return nil
}

func (f *Found) scanNamespace(path string, except map[string]bool) error {
	ns, err := netns.Open(path)
	if errors.Is(err, netns.ErrMissing) || errors.Is(err, os.ErrNotExist) { // ended meanwhile
		return nil
	}
	if err != nil {
		return err
	}
	defer ns.Close() //nolint:errcheck // only looked at
	if except[ns.ID()] {
		return nil
	}
	interfaces, err := ns.Interfaces()
	if err != nil {
		return err
	}
	for _, i := range interfaces {
		for _, address := range i.Addresses {
			f.inUse[address.Addr()] = path
		}
	}
	return nil
}
