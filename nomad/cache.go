// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package nomad

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/hashicorp/go-hclog"

	"github.com/allocnet/allocnet/internal/atomicfile"
	"github.com/allocnet/allocnet/selection"
)

// networkCache keeps the job networks of each allocation in a file.
type networkCache struct {
	dir string
	log hclog.Logger
}

func (c networkCache) path(id string) string { return filepath.Join(c.dir, id+".json") }

// load returns the cached networks of an allocation, and whether there are any on
// disk. A file that a power cut truncated counts as not found: Nomad has the
// original.
func (c networkCache) load(id string) (elements []selection.Element, found bool, err error) {
	data, err := os.ReadFile(c.path(id))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	elements, err = selection.Parse(string(data))
	if err == nil && !bytes.HasPrefix(data, []byte("[")) {
		err = errors.New("want a JSON list")
	}
	if err != nil {
		c.log.Warn("cached job networks are damaged, asking Nomad", "path", c.path(id), "error", err)
		return nil, false, nil
	}
	return elements, true, nil
}

// store replaces the file of an allocation atomically.
func (c networkCache) store(id string, elements []selection.Element) error {
	if elements == nil {
		elements = []selection.Element{}
	}
	data, err := json.Marshal(elements)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(c.dir, 0o700); err != nil {
		return err
	}
	// Not durable: load detects a truncated file.
	return atomicfile.Write(c.path(id), data, atomicfile.Options{Unlocked: true})
}

func (c networkCache) remove(id string) error {
	if err := os.Remove(c.path(id)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// prune removes the files of all allocations that are not live.
func (c networkCache) prune(live map[string]bool) error {
	files, err := os.ReadDir(c.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	errs := []error{err}
	for _, file := range files {
		if id, _, _ := strings.Cut(strings.TrimPrefix(file.Name(), "."), "."); !live[id] {
			errs = append(errs, os.Remove(filepath.Join(c.dir, file.Name())))
		}
	}
	return errors.Join(errs...)
}
