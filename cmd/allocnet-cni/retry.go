// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"io"
	"os"

	"github.com/containernetworking/cni/pkg/skel"

	"github.com/allocnet/allocnet/internal/detached"
)

// retryArgument makes the program try pending teardowns again, with the plugin
// configuration on its standard input.
const retryArgument = "retry-pending"

// retryLater has another process try again what earlier teardowns left. The
// runtime waits for this one, and other containers for the runtime.
func (r *request) retryLater() {
	if !r.engine.RetryDue() {
		return
	}
	if err := detached.Start(r.args.StdinData, retryArgument); err != nil {
		r.log.Warn("pending teardowns are not tried again now", "error", err)
	}
}

// retryPending is that process.
func retryPending() (code int) {
	input, err := io.ReadAll(os.Stdin)
	if err != nil {
		return 1
	}
	r, err := newRequest(&skel.CmdArgs{StdinData: input}, false)
	if err != nil {
		return 1
	}
	defer r.close()
	if err := r.engine.RetryPending(r.ctx); err != nil {
		r.log.Warn("pending teardowns were not tried again", "error", err)
		return 1
	}
	return 0
}
