// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"io"
	"os"

	"github.com/containernetworking/cni/pkg/skel"

	"github.com/allocnet/allocnet/internal/detached"
)

// retryArgument has the program retry pending teardowns, with the plugin
// configuration on its standard input.
const retryArgument = "retry-pending"

// retryLater starts a process that retries pending teardowns. The runtime waits for
// this one, and other containers wait for the runtime.
func (r *request) retryLater() {
	if !r.engine.RetryDue() {
		return
	}
	if err := detached.Start(r.args.StdinData, retryArgument); err != nil {
		r.log.Warn("cannot start the retry of pending teardowns", "error", err)
	}
}

// retryPending is the main function of that process.
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
		r.log.Warn("retry of pending teardowns failed", "error", err)
		return 1
	}
	return 0
}
