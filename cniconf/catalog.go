// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package cniconf

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/allocnet/allocnet/internal/errdefs"
)

// DefaultDir is the conf directory of Nomad clients.
const DefaultDir = "/opt/cni/config"

// ErrNoDir is a conf directory that does not exist.
var ErrNoDir = errdefs.New(errdefs.Refused, "conf directory does not exist")

// maxFile bounds a configuration file. Real ones have a few KiB.
const maxFile = 1 << 20

// Catalog is what CNI configuration directories offered when they were read.
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

// BrokenFile is a configuration file that cannot be used.
type BrokenFile struct {
	Path string
	// Line and Column are where the JSON is wrong, from 1; 0 when the reason
	// is another.
	Line, Column int
	Err          error
	// Network is the file's network, as far as its name can be read.
	Network string
}

// mayBe tells whether the file may be that of a network.
func (b BrokenFile) mayBe(network string) bool { return b.Network == "" || b.Network == network }

func (b BrokenFile) Error() string {
	if b.Line > 0 {
		return fmt.Sprintf("%s:%d:%d: %v", b.Path, b.Line, b.Column, b.Err)
	}
	return fmt.Sprintf("%s: %v", b.Path, b.Err)
}

// Kind is that of package errdefs.
func (BrokenFile) Kind() errdefs.Kind { return errdefs.Failed }

// Unwrap gives the reason.
func (b BrokenFile) Unwrap() error { return b.Err }

// NotFoundError is a network name that no directory offers.
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

// Load reads directories, of which the first that has a name wins. It fails only
// when a directory itself cannot be read; one that does not exist is ErrNoDir:
// without it a later one could win.
func Load(dirs ...string) (*Catalog, error) {
	c := &Catalog{Dirs: dirs}
	for _, dir := range dirs {
		if err := c.addDir(dir); err != nil {
			return nil, err
		}
	}
	return c, nil
}

func (c *Catalog) addDir(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: make %s and put CNI conflists there", ErrNoDir, dir)
	}
	if err != nil {
		return fmt.Errorf("read conf directory: %w", err)
	}
	earlier := c.Broken
	for _, entry := range entries { // sorted by name
		if entry.IsDir() || !slices.Contains([]string{".conflist", ".conf", ".json"}, filepath.Ext(entry.Name())) {
			continue
		}
		c.add(filepath.Join(dir, entry.Name()), earlier)
	}
	return nil
}

// add reads a file. Its network does not take the place of one whose file, in an
// earlier directory, is broken: that one may have rules.
func (c *Catalog) add(path string, earlier []BrokenFile) {
	network, err := loadFile(path)
	if err != nil {
		c.Broken = append(c.Broken, asBroken(path, err))
		return
	}
	if i := slices.IndexFunc(earlier, func(b BrokenFile) bool { return b.mayBe(network.Name) }); i >= 0 {
		err := fmt.Errorf("network %q may be that of the broken file %s, which comes first: correct or remove that file", network.Name, earlier[i].Path)
		c.Broken = append(c.Broken, BrokenFile{Path: path, Network: network.Name, Err: err})
		return
	}
	if slices.ContainsFunc(c.Networks, func(n *Network) bool { return n.Name == network.Name }) {
		c.Shadowed = append(c.Shadowed, network)
		return
	}
	c.Networks = append(c.Networks, network)
}

func asBroken(path string, err error) BrokenFile {
	var broken BrokenFile
	if !errors.As(err, &broken) {
		broken = BrokenFile{Path: path, Err: err}
	}
	if data, err := readFile(path); err == nil {
		broken.Network = nameIn(data)
	}
	return broken
}

// nameIn reads the name of a network as far as the JSON goes. Of several the last
// counts, as in a file that is not broken.
func nameIn(data []byte) (name string) {
	decoder := json.NewDecoder(bytes.NewReader(data))
	if start, err := decoder.Token(); err != nil || start != json.Delim('{') {
		return ""
	}
	for decoder.More() {
		key, err := decoder.Token()
		if err != nil {
			break
		}
		var value any
		if decoder.Decode(&value) != nil {
			break
		}
		if key, _ := key.(string); strings.EqualFold(key, "name") {
			name, _ = value.(string)
		}
	}
	return name
}

// Lookup returns the network of a name, or a *NotFoundError.
func (c *Catalog) Lookup(name string) (*Network, error) {
	var known []string
	for _, n := range c.Networks {
		if n.Name == name {
			return n, nil
		}
		known = append(known, n.Name)
	}
	slices.Sort(known)
	return nil, &NotFoundError{Name: name, Dirs: c.Dirs, Known: known, Broken: c.Broken}
}

// readFile reads a regular file of a sensible size.
func readFile(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("not a regular file")
	}
	if info.Size() > maxFile {
		return nil, fmt.Errorf("file has %d bytes, want at most %d", info.Size(), maxFile)
	}
	return os.ReadFile(path)
}
