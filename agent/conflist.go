// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package agent

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"

	"github.com/hashicorp/go-hclog"

	"github.com/allocnet/allocnet/cniconf"
	"github.com/allocnet/allocnet/cniconf/watch"
)

// Conflist is a conflist of allocnet-cni that the agent writes, and updates when the
// primary network changes.
type Conflist struct {
	// Path is the file to write. Required.
	Path string
	// Source is a file to copy without changes. Empty: generated from Multi.
	Source string
	// Multi describes the conflist to generate.
	Multi cniconf.Multi
	// Metrics counts. Required.
	Metrics *Metrics
	// Logger gets a line for each change. Required.
	Logger hclog.Logger

	written atomic.Bool
}

// Written tells whether the file is there, and has been up to date.
func (c *Conflist) Written() bool {
	_, err := os.Stat(c.Path)
	return err == nil && c.written.Load()
}

// Keep writes the file, and again after each change of its source, until ctx ends.
// While the source is invalid or missing, the file is not changed.
func (c *Conflist) Keep(ctx context.Context) {
	deaf := func(err error) {
		c.Logger.Error("the conflist is not updated after changes of its source", "path", c.Path, "error", err)
	}
	watch.Follow(ctx, watch.Quiet, c.watched(), deaf, c.once)
}

func (c *Conflist) watched() []string {
	dirs := append([]string{filepath.Dir(c.Path)}, c.Multi.ConfDirs...)
	if c.Source != "" {
		dirs = append(dirs, filepath.Dir(c.Source))
	}
	slices.Sort(dirs)
	return slices.Compact(dirs)
}

// once replaces the file unless it is as it should be: its own change would
// come back as one of the directory.
func (c *Conflist) once() {
	list, err := c.make()
	if err == nil {
		present, _ := os.ReadFile(c.Path)
		if bytes.Equal(present, list) {
			c.written.Store(true)
			return
		}
		err = cniconf.Write(c.Path, list)
	}
	c.Metrics.Reloaded(err)
	if err != nil {
		c.Logger.Error("conflist is not updated", "path", c.Path, "error", err)
		return
	}
	c.written.Store(true)
	c.Logger.Info("conflist written", "path", c.Path)
}

func (c *Conflist) make() ([]byte, error) {
	if c.Source != "" {
		return c.install()
	}
	catalog, err := cniconf.LoadExcept(c.Path, c.Multi.ConfDirs...)
	if err != nil {
		return nil, err
	}
	return c.Multi.ConfList(catalog)
}

// install returns the user's file, if a runtime could use it.
func (c *Conflist) install() ([]byte, error) {
	data, err := os.ReadFile(c.Source)
	if err != nil {
		return nil, err
	}
	if _, err := cniconf.ParseNetwork(c.Source, data); err != nil {
		return nil, fmt.Errorf("%s: %w", c.Source, err)
	}
	return data, nil
}
