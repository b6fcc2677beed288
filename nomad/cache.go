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

	"github.com/allocnet/allocnet/internal/files"
	"github.com/allocnet/allocnet/selection"
)

type networkCache struct {
	dir string
	log hclog.Logger
}

func (c networkCache) path(id string) string { return filepath.Join(c.dir, id+".json") }

// load returns the cached job of an allocation; nil if it is not on disk. A file that a
// power cut truncated counts as not found: Nomad has the original.
func (c networkCache) load(id string) (*selection.Job, error) {
	data, err := os.ReadFile(c.path(id))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	j, err := decodeJob(data)
	if err != nil {
		c.log.Warn("cached job networks are damaged, asking Nomad", "path", c.path(id), "error", err)
		return nil, nil
	}
	return j, nil
}

func decodeJob(data []byte) (*selection.Job, error) {
	var cached struct {
		selection.Job
		Networks json.RawMessage `json:"networks"`
	}
	if err := json.Unmarshal(data, &cached); err != nil {
		return nil, err
	}
	if !bytes.HasPrefix(cached.Networks, []byte("[")) {
		return nil, errors.New("networks: want a JSON list")
	}
	elements, err := selection.Parse(string(cached.Networks))
	return &selection.Job{Identity: cached.Identity, Networks: elements, Narrowing: cached.Narrowing}, err
}

// store replaces the file of an allocation atomically.
func (c networkCache) store(id string, j selection.Job) error {
	if j.Networks == nil {
		j.Networks = []selection.Element{}
	}
	return files.ReplaceJSON(c.path(id), j, files.Options{Unlocked: true}) // not durable: load detects a truncated file
}

func (c networkCache) remove(id string) error { return files.Remove(c.path(id)) }

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
