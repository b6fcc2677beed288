// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package repair

import (
	"context"
	"errors"
)

// isolate has the host get what it lacks to keep attachments apart: all of it, in one transaction.
func (r *repairRound) isolate(ctx context.Context) {
	for _, p := range r.repairs {
		if len(p.Unrepairable) == 0 {
			r.apart.Add(p.operation.Record.Allocation, *p.Attachment())
		}
	}
	lacks, unknown := r.apart.Lacks(ctx)
	for _, p := range r.repairs {
		if unknown != nil {
			p.Err = errors.Join(p.Err, unknown)
		}
		for _, what := range lacks[p.Attachment().ContainerID] {
			p.ensure(what, func() error { return r.apart.Make(ctx, p.operation.Record.Allocation.ID) })
		}
	}
}
