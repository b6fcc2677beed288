// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package netns

import (
	"errors"
	"net/netip"
)

// Addresses returns the addresses of scope global in all network namespaces but the
// caller's, with the path of a namespace that has each. A namespace that cannot be entered
// is an error.
func Addresses() (map[netip.Addr]string, error) {
	paths, err := Others()
	if err != nil {
		return nil, err
	}
	used := map[netip.Addr]string{}
	for _, path := range paths {
		if err := addAddresses(used, path); err != nil {
			return nil, err
		}
	}
	return used, nil
}

func addAddresses(used map[netip.Addr]string, path string) error {
	n, err := Open(path)
	if errors.Is(err, ErrMissing) { // ended meanwhile
		return nil
	}
	if err != nil {
		return err
	}
	defer n.Close() //nolint:errcheck // only read
	interfaces, err := n.Interfaces()
	if err != nil {
		return err
	}
	for _, i := range interfaces {
		for _, address := range i.Addresses {
			used[address.Addr()] = path
		}
	}
	return nil
}
