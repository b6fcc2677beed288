// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package pool

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/hashicorp/go-hclog"
	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/internal/files"
)

// conflicts is the number of addresses that a probe found in use on other hosts, in a file: the plugins
// that probe are processes of their own, and the agent reads it for its metric.
type conflicts struct {
	path   string
	logger hclog.Logger
}

func (c conflicts) add(ctx context.Context, more int) error {
	unlock, err := files.LockFile(ctx, c.path+".lock", unix.LOCK_EX)
	if err != nil {
		return err
	}
	defer unlock()
	before, err := c.read()
	if err != nil {
		c.logger.Warn("the number of addresses in use elsewhere begins at 0 again", "error", err)
	}
	text := strconv.FormatUint(before+uint64(more), 10) + "\n"
	return files.Replace(c.path, []byte(text), files.Options{})
}

// read returns how many addresses other hosts were found to use before they were given out.
func (c conflicts) read() (uint64, error) {
	data, err := files.IfExists(files.Read(c.path))
	if err != nil || data == nil {
		return 0, err
	}
	count, err := strconv.ParseUint(strings.TrimSpace(string(data)), 10, 63)
	if err != nil {
		return 0, fmt.Errorf("%s: %.32q: want a number", c.path, data)
	}
	return count, nil
}
