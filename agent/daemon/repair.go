// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package daemon

import (
	"cmp"

	"github.com/allocnet/allocnet/agent"
	"github.com/allocnet/allocnet/agent/config"
	"github.com/allocnet/allocnet/agent/repair"
	"github.com/allocnet/allocnet/hook"
)

// newRepairer returns what repairs attachments; nil for a hook that attaches nothing.
func (d *Daemon) newRepairer(engine agent.Engine) *repair.Repairer {
	repairs, ok := engine.(repair.Engine)
	if !ok {
		return nil
	}
	return repair.New(repair.Config{
		Engine: repairs, Watch: repair.Watch, Observer: d.metrics, Logger: d.log.Named("repair"), DrainTimeout: d.config.Limits.DrainTimeout,
		Outside: func() error { return outside(d.config.CNI.Chroot) },
	}, repairMode(d.config.Repair))
}

func repairMode(c config.Repair) hook.RepairMode {
	return cmp.Or(hook.RepairMode(c.Mode), hook.RepairRules)
}
