// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package cleanup

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/allocnet/allocnet/state"
)

// scanTuning lists the files in which the tuning plugin keeps the settings that
// its DEL restores. They are named CONTAINERID_INTERFACE.json.
func scanTuning(dir string) (found Found) {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		found.problem(dir, err)
	}
	for _, entry := range entries {
		path := filepath.Join(dir, entry.Name())
		content, err := readRegular(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		name, ok := strings.CutSuffix(entry.Name(), ".json")
		cut := strings.LastIndex(name, "_")
		if err == nil && (!ok || cut < 0 || state.ValidateContainerID(name[:cut]) != nil) {
			err = errors.New("is not of the tuning plugin: want CONTAINERID_INTERFACE.json")
		}
		if err != nil {
			found.problem(path, err)
			continue
		}
		found.Objects = append(found.Objects, Object{
			Kind: Tuning, key: entry.Name(), Where: path,
			// Both parts may have a '_' in them: attribute knows better.
			Owner: ownerOf("", name[:cut], name[cut+1:]),
			file:  &file{path: path, content: content},
		})
	}
	return found
}
