// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package plugin

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/internal/advertised"
	"github.com/allocnet/allocnet/internal/sysctl"
)

// Forward has the host forward packets of a family.
func (c *Call) Forward(isV4 bool) error {
	if value, err := c.Sysctls.Get(forwarding(isV4)); err == nil && value == "1" {
		return nil
	}
	if !isV4 {
		return advertised.Forward(&c.Sysctls)
	}
	return c.Sysctls.Set(forwarding(isV4), "1")
}

func forwarding(isV4 bool) string {
	if isV4 {
		return "net/ipv4/ip_forward"
	}
	return advertised.Forwarding
}

// RepairForwarding has the host forward packets of a family.
func (c *Call) RepairForwarding(isV4 bool) error {
	value, err := c.Sysctls.Get(forwarding(isV4))
	if err != nil || value == "1" {
		return nil //nolint:nilerr // a kernel without the parameter needs no repair
	}
	return c.Repair.Ensure(fmt.Sprintf("%s is %s, was set to 1", forwarding(isV4), value), func() error { return c.Forward(isV4) })
}

// KeepAdvertised has the host go on with what it has from router advertisements, for plugins that switch IPv6 forwarding on.
// It is safe to repeat. Where settings are read-only, these plugins switch nothing on.
func KeepAdvertised() error {
	var sysctls sysctl.Tree
	if value, err := sysctls.Get(advertised.Forwarding); err != nil || value == "1" {
		return nil //nolint:nilerr // a kernel without IPv6 has nothing of it
	}
	if err := advertised.Keep(&sysctls); !errors.Is(err, unix.EROFS) {
		return err
	}
	return nil
}
