// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package filter

import (
	"context"

	"github.com/allocnet/allocnet/isolation"
)

// Denied returns what was dropped of attachments, by their IDs. It is counted from when the attachment is added, and again from 0 when the tables are
// made anew, as after a flush or by another version of allocnet, or when its addresses change. Rules and levels that change leave the counts.
func (Kernel) Denied(context.Context) (map[string]isolation.Denied, error) { return map[string]isolation.Denied{}, nil }

// Listen calls a function for packets that are dropped, until the context ends: of each reason for some, if there are many. Of a network namespace one
// process can listen. Where none does, or the kernel does not tell of packets, nothing else changes.
func Listen(ctx context.Context, _ func(isolation.DeniedFlow)) error {
	<-ctx.Done()
	return nil
}
