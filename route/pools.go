// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package route

// Pools returns the pools on record, with their names and subnets at least: what an earlier
// process has left, too. Nothing is on record before Apply is there.
func (t *Table) Pools() ([]Pool, error) { return nil, nil }
