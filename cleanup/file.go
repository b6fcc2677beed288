// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package cleanup

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/internal/files"
)

type file struct {
	path string
	// content is that with which it was found.
	content string
	// leases is the directory of leases that it is in; empty for other files.
	leases string
}

// filePattern is a file that a plugin keeps for one attachment, in a directory of
// its own.
type filePattern struct {
	in directory
	// name has the groups id and interface. It may be ambiguous.
	name *regexp.Regexp
	// want describes the form of the name in problems.
	want string
	// key returns the name of an owner's file.
	key func(Owner) string
}

// scan lists the files of a directory. One of another form is a problem.
func (p filePattern) scan(dir string, kind Kind) (found scanResult) {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		found.problem(dir, err)
	}
	for _, entry := range entries {
		path := filepath.Join(dir, entry.Name())
		content, err := readSmall(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		owner, _, ok := parseOwner(p.name, entry.Name())
		if err == nil && !ok {
			err = fmt.Errorf("is not a file of the plugin: want %s", p.want)
		}
		if err != nil {
			found.problem(path, err)
			continue
		}
		found.Objects = append(found.Objects, Object{
			Kind: kind, key: entry.Name(), Where: path, Owner: owner, nameOnly: true,
			file: &file{path: path, content: content},
		})
	}
	return found
}

func (f *file) unchanged() bool {
	content, err := readSmall(f.path)
	return err == nil && content == f.content
}

// remove removes the file unless its content has changed.
func (f *file) remove() error {
	content, err := readSmall(f.path)
	if err == nil && content != f.content {
		return fmt.Errorf("%s has changed since it was read", f.path)
	}
	if err == nil {
		err = os.Remove(f.path)
	}
	return files.UnlessMissing(err)
}

// readSmall reads a regular file: where others may write, a link could lead
// anywhere, and a pipe keep its reader. The files of plugins are small.
func readSmall(path string) (string, error) {
	const limit = 16 << 20
	data, err := files.ReadStart(path, os.O_RDONLY|unix.O_NOFOLLOW, limit+1)
	if err == nil && len(data) > limit {
		return "", fmt.Errorf("%s has at least %d bytes, want at most %d", path, len(data), limit)
	}
	return string(data), err
}

// directory is where a plugin keeps files.
type directory struct {
	paths []string
	// configured returns the directory that a plugin configuration names; empty:
	// none. Nil: the plugin has no such setting.
	configured func(pluginConf) string
	// numbered is whether each may have others beside it, such as "tuning-2": what cniconf gives the further plugins of a chain.
	numbered bool
}

// list returns the defaults, and the directories that conflists name by an
// absolute path: a relative one would depend on where this process runs.
func (d directory) list(conflists []json.RawMessage) []string {
	list := slices.Clone(d.paths)
	for _, conflist := range conflists {
		for _, plugin := range pluginConfs(conflist) {
			if d.configured == nil {
				continue
			}
			if path := d.configured(plugin); filepath.IsAbs(path) {
				list = append(list, path)
			}
		}
	}
	if d.numbered {
		list = append(list, numberedBeside(list)...)
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// numberedBeside returns the directories whose names are those of others with a number of two or more behind them.
func numberedBeside(directories []string) (found []string) {
	for _, dir := range directories {
		entries, _ := os.ReadDir(filepath.Dir(dir)) // without it there are none
		for _, entry := range entries {
			number, ok := strings.CutPrefix(entry.Name(), filepath.Base(dir)+"-")
			if n, err := strconv.Atoi(number); ok && err == nil && n > 1 && entry.IsDir() { // a link could lead anywhere
				found = append(found, filepath.Join(filepath.Dir(dir), entry.Name()))
			}
		}
	}
	return found
}
