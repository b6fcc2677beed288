// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package pool

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/allocnet/allocnet/internal/files"
)

// conflictsName is the file with the number of addresses that a probe found in use. The plugins
// that probe are processes of their own: the agent reads the file for its metric.
const conflictsName = "conflicts"

func (p *Pool) conflictsFile() string { return filepath.Join(p.dir(), conflictsName) }

// countConflicts adds to the number of addresses that other hosts were found to use.
func (p *Pool) countConflicts(ctx context.Context, more int) error {
	unlock, err := p.lock(ctx, conflictsName+".lock")
	if err != nil {
		return err
	}
	defer unlock()
	before, err := p.conflicts()
	if err != nil {
		p.o.Logger.Warn("the number of addresses in use elsewhere begins at 0 again", "error", err)
	}
	text := strconv.FormatUint(before+uint64(more), 10) + "\n"
	return files.Replace(p.conflictsFile(), []byte(text), files.Options{})
}

// conflicts returns how many addresses other hosts were found to use before they were given out.
func (p *Pool) conflicts() (uint64, error) {
	data, err := files.Read(p.conflictsFile())
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	count, err := strconv.ParseUint(strings.TrimSpace(string(data)), 10, 63)
	if err != nil {
		return 0, fmt.Errorf("%s: %.32q: want a number", p.conflictsFile(), data)
	}
	return count, nil
}
