// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package cleanup

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/allocnet/allocnet/internal/resolvconf"
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
	// wanted tells of which chains it has to be known what is in them: a place that no program can list is an error only
	// if it has one. Default: those that can be of an owner that is not known.
	wanted func(chain string) bool
	// host is what is scanned. Default: this one.
	host *host
}

// defaultCacheDir is libcni's.
const defaultCacheDir = "/var/lib/cni"

// scan lists the objects of all kinds. The error joins those of the sources
// that could not be listed; what the others have is returned all the same.
func (s scanner) scan(ctx context.Context) (*scanResult, error) {
	if s.cacheDir == "" {
		s.cacheDir = defaultCacheDir
	}
	s.host = s.host.orDefault()
	fromCache, conflists := scanCache(s.cacheDir)
	s.confLists = append(conflists, s.confLists...)
	found := &fromCache
	found.host = s.host
	if s.wanted == nil {
		s.wanted = s.host.catalog.ofUnknown(s.known)
	}
	ctx, stop := s.host.limit(ctx)
	defer stop()
	sources := s.rules(ctx)
	sources[s.host.resolvConfDir] = func() (scanResult, error) { return scanResolvConf(s.host.resolvConfDir) }
	maps.Copy(sources, s.leaks(ctx, found))
	found.unlisted = found.gather(sources)
	attribute(s.host.catalog, found.Objects, append(owners(found.Objects), s.known...))
	return found, found.unlisted
}

// source lists one kind of objects.
type source func() (scanResult, error)

// rules returns the iptables backends, each listed once for all plugins.
func (s scanner) rules(ctx context.Context) map[string]source {
	sources := map[string]source{}
	present, absent := divided(s.host.programs)
	for _, b := range present {
		sources[b.name] = func() (scanResult, error) { return b.scan(ctx, s.host, s.wanted) }
	}
	for _, b := range absent {
		sources[b.name] = func() (scanResult, error) { return scanResult{}, b.unlisted(ctx, s.host, notInstalled, s.wanted) }
	}
	return sources
}

// leaks returns the sources of the other objects in the catalogue.
func (s scanner) leaks(ctx context.Context, found *scanResult) map[string]source {
	sources := map[string]source{}
	for l := range s.host.catalog.leaks() {
		for _, t := range l.tables {
			sources[t.String()] = func() (scanResult, error) { return t.scan(ctx, s.host, l.kind) }
		}
		for _, p := range l.links {
			sources[p.String()] = func() (scanResult, error) { return p.scan(s.host.kernel, l.kind) }
		}
		for _, p := range l.files {
			for _, dir := range p.in.list(s.confLists) {
				sources[string(l.kind)+" "+dir] = func() (scanResult, error) { return p.scan(dir, l.kind), nil }
			}
		}
		for _, d := range l.leases {
			dirs := leaseDirs(d.list(s.confLists))
			found.leaseDirs = append(found.leaseDirs, dirs...)
			users := d.leaseUsers(s.confLists)
			for _, dir := range dirs {
				sources[dir] = func() (scanResult, error) { return scanLeases(dir, users.of(dir)), nil }
			}
		}
	}
	return sources
}

func (f *scanResult) gather(sources map[string]source) error {
	var group errgroup.Group
	var mu sync.Mutex
	var errs []error
	results := map[string]scanResult{}
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
	_ = group.Wait() // errors are in errs: all are reported
	for _, name := range slices.Sorted(maps.Keys(results)) {
		f.Objects = append(f.Objects, results[name].Objects...)
		f.Problems = append(f.Problems, results[name].Problems...)
	}
	return errors.Join(errs...)
}

// scanResolvConf lists the files that allocnet wrote for network namespaces, which have the
// IDs of their allocations as names. Files of others are none.
func scanResolvConf(dir string) (scanResult, error) {
	var found scanResult
	files, err := resolvconf.List(dir)
	for _, f := range files {
		found.Objects = append(found.Objects, Object{
			Kind: ResolvConf, Owner: Owner{Allocation: f.Name, ContainerID: f.Name}, Where: f.Path(), provesDeath: true, resolvConf: &f,
		})
	}
	return found, err
}
