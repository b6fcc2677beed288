// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package daemon

import (
	"context"

	"github.com/hashicorp/go-hclog"

	"github.com/allocnet/allocnet/agent"
)

// newLeases returns the task that extends leases of DHCP; nil for a hook that attaches nothing. An agent that does not see the namespaces
// of the host, as in chroot, keeps none, and so none is asked for.
func newLeases(engine agent.Engine, chroot string, log hclog.Logger) func(context.Context) {
	keeper, ok := engine.(interface{ KeepLeases(ctx context.Context) })
	if !ok {
		return nil
	}
	return func(ctx context.Context) {
		if err := outside(chroot); err != nil {
			log.Info("leases of DHCP are not kept", "reason", err)
			return
		}
		keeper.KeepLeases(ctx)
	}
}
