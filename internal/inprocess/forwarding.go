// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package inprocess

import (
	"fmt"

	"github.com/allocnet/allocnet/internal/advertised"
)

// forward has the host forward packets of a family.
func (c *call) forward(isV4 bool) error {
	if value, err := c.sysctls.Get(forwarding(isV4)); err == nil && value == "1" {
		return nil
	}
	if !isV4 {
		return advertised.Forward(&c.sysctls)
	}
	return c.sysctls.Set(forwarding(isV4), "1")
}

func forwarding(isV4 bool) string {
	if isV4 {
		return "net/ipv4/ip_forward"
	}
	return advertised.Forwarding
}

// repairForwarding has the host forward packets of a family.
func (c *call) repairForwarding(isV4 bool) error {
	value, err := c.sysctls.Get(forwarding(isV4))
	if err != nil || value == "1" {
		return nil //nolint:nilerr // a kernel without the parameter needs no repair
	}
	return c.repair.ensure(fmt.Sprintf("%s is %s, was set to 1", forwarding(isV4), value), func() error { return c.forward(isV4) })
}
