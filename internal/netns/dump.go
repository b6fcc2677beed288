// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package netns

import (
	"errors"

	"github.com/vishvananda/netlink"
)

// Whole lists the kernel's objects again when they changed while they were
// listed: then the list may lack some (netlink(7), NLM_F_DUMP_INTR). On a busy
// host that happens, but not many times in a row.
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
