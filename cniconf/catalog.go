// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Package cniconf reads the named networks of CNI configuration directories.
//
// A network is a .conflist, .conf or .json file, and has the name that the file
// says. Files are read in lexical order; of several with one name the first is used.
// A file that cannot be used is reported, and keeps others from being used only where
// it may have rules for the same network.
package cniconf

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/allocnet/allocnet/internal/errdefs"
)

const (
	// nomadDir is the CNI configuration directory of Nomad clients unless they are configured.
	nomadDir = "/opt/cni/config"
	// OwnDir has the networks that only allocnet attaches, so that their rules hold.
	OwnDir = "/etc/allocnet/networks"
)

// DefaultDirs are the configuration directories unless configured: allocnet's own, and that of Nomad clients.
func DefaultDirs() []string { return []string{OwnDir, nomadDir} }

// Dirs returns the directories that are configured, or the default ones for none.
func Dirs(configured []string) []string {
	if len(configured) == 0 {
		return DefaultDirs()
	}
	return configured
}

// Present returns the directories without OwnDir if this host does not have it. It is made for the first network with rules, maybe after
// a program has begun that reads the directories. A link there that leads nowhere is there: without its networks, those of the same names
// in a later directory would be used, which may have no rules.
func Present(dirs []string) []string { return present(OwnDir, dirs) }

func present(own string, dirs []string) []string {
	if _, err := os.Lstat(own); !errors.Is(err, fs.ErrNotExist) {
		return dirs
	}
	return slices.DeleteFunc(slices.Clone(dirs), func(dir string) bool { return filepath.Clean(dir) == own })
}

// NomadDir is of the configuration directories the one that Nomad's client reads, by convention the
// last: those before it are allocnet's own. It is empty for none.
func NomadDir(dirs []string) string { return strings.Join(dirs[max(0, len(dirs)-1):], "") }

// ErrNoDir reports a CNI configuration directory that does not exist.
var ErrNoDir = errdefs.New(errdefs.Refused, "CNI configuration directory does not exist")

var extensions = []string{".conflist", ".conf", ".json"}

// Catalog has the networks of CNI configuration directories at the time when they
// were read.
type Catalog struct {
	Dirs []string
	// Networks are in the order of the directories, and in each in the lexical
	// order of their files.
	Networks []*Network
	// Broken are the files that cannot be used.
	Broken []BrokenFile
	// Shadowed are networks whose name an earlier file has.
	Shadowed []*Network
}

// NotFoundError reports a network name that no directory has.
type NotFoundError struct {
	Name   string
	Dirs   []string
	Known  []string
	Broken []BrokenFile
}

func (e *NotFoundError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "unknown network %q: %s offers ", e.Name, strings.Join(e.Dirs, ", "))
	if len(e.Known) == 0 {
		b.WriteString("none")
	}
	b.WriteString(strings.Join(e.Known, ", "))
	for _, known := range e.Known {
		if strings.EqualFold(known, e.Name) {
			fmt.Fprintf(&b, "; did you mean %q?", known)
		}
	}
	for _, broken := range e.Broken {
		fmt.Fprintf(&b, "; not usable: %v", broken)
	}
	return b.String()
}

// Kind is that of package errdefs.
func (*NotFoundError) Kind() errdefs.Kind { return errdefs.Refused }

// Load reads CNI configuration directories. Of several networks with one name the
// first is used. The error is that a directory cannot be read, or ErrNoDir: without
// it a network of a later directory could be used in place of a missing one.
func Load(dirs ...string) (*Catalog, error) { return LoadExcept("", dirs...) }

// LoadExcept is Load as if the file at path did not exist, for the program that is
// about to replace that file. Empty path: no exception.
func LoadExcept(path string, dirs ...string) (*Catalog, error) {
	c := &Catalog{Dirs: dirs}
	for _, dir := range Present(dirs) {
		if err := c.addDir(dir, filepath.Clean(path)); err != nil {
			return nil, err
		}
	}
	return c, nil
}

func (c *Catalog) addDir(dir, except string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: create %s and put network configurations there", ErrNoDir, dir)
	}
	if err != nil {
		return fmt.Errorf("read CNI configuration directory: %w", err)
	}
	earlierDirs, known, parsed := len(c.Broken), kept.in(dir), networks{}
	for _, entry := range entries { // sorted by name
		path := filepath.Join(dir, entry.Name())
		if entry.IsDir() || path == except || !slices.Contains(extensions, filepath.Ext(path)) {
			continue
		}
		if parsed[path], err = loadFile(path, known[path]); err != nil {
			c.Broken = append(c.Broken, asBroken(path, err))
			continue
		}
		c.add(parsed[path], earlierDirs)
	}
	kept.put(dir, parsed)
	return nil
}

// add adds the network of a file. It is not used in place of that of a broken file which
// comes before, since that may have rules. In its directory a broken file keeps its name,
// and without a readable one each that follows a key "name" in its text. Without a readable
// name it also keeps the networks of all later directories. The first earlierDirs of the
// broken files are those of earlier directories.
func (c *Catalog) add(network *Network, earlierDirs int) {
	for i, b := range c.Broken {
		if i < earlierDirs && b.Network == "" || b.keeps(network.Name) {
			err := fmt.Errorf("network %q may be that of the broken file %s, which comes first: correct or remove that file", network.Name, b.Path)
			c.Broken = append(c.Broken, BrokenFile{Path: network.Path, Network: network.Name, Err: err})
			return
		}
	}
	if slices.ContainsFunc(c.Networks, func(n *Network) bool { return n.Name == network.Name }) {
		c.Shadowed = append(c.Shadowed, network)
		return
	}
	c.Networks = append(c.Networks, network)
}

// Lookup returns the network of a name, or a *NotFoundError.
func (c *Catalog) Lookup(name string) (*Network, error) {
	var known []string
	for _, n := range c.Networks {
		if n.Name == name {
			return n, nil
		}
		if !n.IsOwn() { // which is not what was meant
			known = append(known, n.Name)
		}
	}
	slices.Sort(known)
	return nil, &NotFoundError{Name: name, Dirs: c.Dirs, Known: known, Broken: c.Broken}
}
