// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package netns

import "net/netip"

// Addresses returns the addresses in all network namespaces but the caller's, with the path
// of a namespace that has each. A namespace that cannot be looked into is an error.
func Addresses() (map[netip.Addr]string, error) {
	places, err := Others()
	if err != nil {
		return nil, err
	}
	used := map[netip.Addr]string{}
	for _, place := range places {
		for _, address := range place.Addresses {
			used[address] = place.Path
		}
	}
	return used, nil
}
