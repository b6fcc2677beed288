// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package inprocess

// repairMacvlan repairs the interface inside. It is gone if its master was removed.
func repairMacvlan(c *call) error {
	result, err := c.requirePrevResult()
	if err != nil {
		return err
	}
	return c.repairInside(result, insideRepair{kind: "macvlan", direct: true})
}

// repairLoopback sets lo up.
func repairLoopback(c *call) error {
	return c.inNamespace(func() error {
		link, err := findLink("lo")
		if err != nil || link == nil {
			return err
		}
		return c.repair.ensureUp(link)
	})
}
