// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package netns

import (
	"errors"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Routes returns the routes of a family that the filter selects, by its Table and by its LinkIndex,
// each of which may be zero for all. Those that keep leaves out are not held in memory. After limit
// routes there are no more; 0: there is no limit.
//
// The kernel selects them: a namespace may have very many others.
func Routes(h *netlink.Handle, family int, filter netlink.Route, limit int, keep func(netlink.Route) bool) ([]netlink.Route, error) {
	if h.SetStrictCheck(true) == nil { // Linux 4.20; without it the library selects
		defer h.SetStrictCheck(false) //nolint:errcheck // it could be set
	}
	mask := netlink.RT_FILTER_TABLE
	if filter.LinkIndex != 0 {
		mask |= netlink.RT_FILTER_OIF
	}
	routes, err := Whole(func() (routes []netlink.Route, err error) {
		err = h.RouteListFilteredIter(family, &filter, mask, func(r netlink.Route) bool {
			if keep == nil || keep(r) {
				routes = append(routes, r)
			}
			return limit == 0 || len(routes) < limit
		})
		return routes, err
	})
	if errors.Is(err, unix.ENOENT) { // there is no such table
		return nil, nil
	}
	return routes, err
}
