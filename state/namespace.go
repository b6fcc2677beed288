// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package state

import "github.com/allocnet/allocnet/internal/netns"

// Namespace opens the network namespace that the allocation has now. Whatever is
// at its path by now, it is missing (netns.ErrMissing) when it was of an earlier
// boot, or when its recorded identity is another one's.
func (a Allocation) Namespace() (*netns.Namespace, error) {
	earlier, err := a.IsOfEarlierBoot()
	if err != nil {
		return nil, err
	}
	if earlier {
		return nil, &netns.MissingError{Path: a.Netns, Reason: "it was of an earlier boot"}
	}
	return netns.OpenSame(a.Netns, a.NetnsID)
}

// IsOfEarlierBoot tells whether the allocation was set up in an earlier boot, with
// which its namespace, links and rules went.
func (a Allocation) IsOfEarlierBoot() (bool, error) {
	if a.BootID == "" { // not known
		return false, nil
	}
	boot, err := BootID()
	return err == nil && a.BootID != boot, err
}
