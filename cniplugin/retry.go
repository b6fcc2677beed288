// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package cniplugin

import (
	"context"
	"io"

	"github.com/containernetworking/cni/pkg/skel"
)

// retryLater has pending teardowns retried. The runtime waits for this call, and other containers
// wait for the runtime.
func (r *request) retryLater() {
	if r.later == nil || !r.engine.RetryDue() {
		return
	}
	if err := r.later(r.args.StdinData); err != nil {
		r.log.Warn("cannot start the retry of pending teardowns", "error", err)
	}
}

// RetryPending retries pending teardowns with the configuration of a call. It may take minutes.
func (c Call) RetryPending(ctx context.Context) error {
	config, err := io.ReadAll(c.Config)
	if err != nil {
		return err
	}
	r, err := c.newRequest(ctx, &skel.CmdArgs{StdinData: config, Path: c.Getenv("CNI_PATH")}, false)
	if err != nil {
		return err
	}
	defer r.close()
	if err := r.engine.RetryPending(r.ctx); err != nil {
		r.log.Warn("retry of pending teardowns failed", "error", err)
		return err
	}
	return nil
}
