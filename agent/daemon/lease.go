// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package daemon

import (
	"context"

	"github.com/allocnet/allocnet/agent"
)

// newLeases returns the task that extends leases of DHCP; nil for a hook that attaches nothing. An agent that does not see the namespaces
// of the host keeps none, and so none is asked for.
func (d *Daemon) newLeases(engine agent.Engine) func(context.Context) {
	keeper, ok := engine.(interface{ KeepLeases(ctx context.Context) })
	if !ok {
		return nil
	}
	return func(ctx context.Context) {
		if err := outside(d.config.CNI.Chroot); err != nil {
			d.log.Info("leases of DHCP are not kept", "reason", err)
			return
		}
		keeper.KeepLeases(ctx)
	}
}
