// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package netns

import (
	"errors"

	"github.com/vishvananda/netlink"
)

// Whole repeats a netlink dump that was interrupted by a change, because it may lack
// objects (netlink(7), NLM_F_DUMP_INTR). On a busy host that happens, but not many times
// in succession.
func Whole[T any](list func() (T, error)) (T, error) {
	var items T
	var err error
	for range 100 {
		if items, err = list(); !errors.Is(err, netlink.ErrDumpInterrupted) {
			break
		}
	}
	return items, err
}
