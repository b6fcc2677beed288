// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package differential

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/allocnet/allocnet/internal/netns"
	"github.com/allocnet/allocnet/internal/sandbox"
)

// snapshots takes snapshots of a host. Names and rules are those of one run.
type snapshots struct {
	names *names
	rules ruleCache
}

// reset begins a run.
func (s *snapshots) reset() { s.names = newNames() }

// take returns one line for each property of the host and of the namespace of the allocation.
func (s *snapshots) take() ([]string, error) {
	if s.names == nil {
		s.reset()
	}
	var lines []string
	var host, inside *dump
	for _, part := range []func() ([]string, error){
		func() (more []string, err error) { host, more, err = look(""); return more, err },
		func() (more []string, err error) {
			err = inNamespace(func() (err error) { inside, more, err = look("inside "); return err })
			return more, err
		},
		s.rules.read, files,
	} {
		more, err := part()
		if err != nil {
			return nil, err
		}
		lines = append(lines, more...)
	}
	s.names.add(inside, host)
	lines = append(lines, host.describe(inside)...)
	if inside != nil {
		lines = append(lines, inside.describe(host)...)
	}
	for i, line := range lines {
		lines[i] = s.names.replace(line)
	}
	slices.Sort(lines)
	return lines, nil
}

// hasRules tells whether the host has rules.
func (s *snapshots) hasRules() bool {
	lines, err := s.rules.read()
	return err != nil || len(lines) > 0
}

// look returns the links of this namespace, and what else it has.
func look(prefix string) (*dump, []string, error) {
	links, err := dumpLinks(prefix)
	if err != nil {
		return nil, nil, err
	}
	lines, err := state(links)
	return links, lines, err
}

// inNamespace runs a function in the namespace of the allocation if there is one.
func inNamespace(f func() error) error {
	n, err := netns.Open(namespacePath)
	if errors.Is(err, netns.ErrMissing) {
		return nil
	}
	if err != nil {
		return err
	}
	defer n.Close()
	return n.Do(f)
}

// state returns addresses, routes, rules of routing, neighbours, queues and settings of this
// namespace, whose links are given.
func state(own *dump) ([]string, error) {
	lines, err := dumpObjects(own)
	if err != nil {
		return nil, err
	}
	return append(lines, settings(own.prefix)...), nil
}

// files returns the files below /run and /var/lib with their contents, without those that are
// no traces of an attachment.
func files() ([]string, error) {
	var lines []string
	for _, dir := range []string{"/run", "/var/lib"} {
		err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return err
			case path == "/run/netns" || entry.IsDir() && sandbox.IsKept(path):
				return fs.SkipDir
			case path == "/run/xtables.lock" || path == dir || strings.HasSuffix(path, ".owners"): // a cache beside many leases
				return nil
			}
			line, err := file(path, entry)
			lines = append(lines, line)
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return lines, nil
}

func file(path string, entry fs.DirEntry) (string, error) {
	info, err := entry.Info()
	if err != nil || !info.Mode().IsRegular() {
		return fmt.Sprintf("file %s %s", path, entry.Type()), err
	}
	data, err := os.ReadFile(path)
	return fmt.Sprintf("file %s %s %q", path, info.Mode(), data), err
}
