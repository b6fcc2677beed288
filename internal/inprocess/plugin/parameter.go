// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package plugin

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/containernetworking/cni/pkg/types"
	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/internal/advertised"
	"github.com/allocnet/allocnet/internal/netns"
	"github.com/allocnet/allocnet/internal/sysctl"
)

// SwitchIPv6 switches IPv6 off on the interface of the attachment, in the namespace of which this is called, if the network has none.
func (c *Call) SwitchIPv6() error {
	if !c.IPv6Off {
		return nil
	}
	return netns.SwitchIPv6Off(&c.Sysctls, c.IfName)
}

// EnsureSysctl sets a parameter to a value. A kernel without the parameter needs no repair.
func (c *Call) EnsureSysctl(key, value string) error {
	present, err := c.Sysctls.Get(key)
	if err != nil || sameParameter(present, value) || c.isKernelForm(key, value, present) {
		return nil // see above
	}
	return c.Repair.Ensure(fmt.Sprintf("%s is %s, was set to %s", key, present, value), func() error { return c.Sysctls.Set(key, value) })
}

// isKernelForm tells whether the kernel prints a value of a parameter as it is present: ranges, masks and
// names have other forms, and bounds. The kernel itself tells, in an empty network namespace, where lo stands
// for the interface.
func (c *Call) isKernelForm(key, value, present string) bool {
	empty, err := netns.New()
	if err != nil {
		return false
	}
	defer empty.Close() //nolint:errcheck // it ends with that
	parts := strings.Split(key, "/")
	if at := slices.Index(parts, c.IfName); at >= 0 {
		parts[at] = "lo"
	}
	var printed string
	err = empty.Do(func() (err error) {
		sysctls := sysctl.Tree{}
		if err = sysctls.Set(strings.Join(parts, "/"), value); err == nil {
			printed, err = sysctls.Get(strings.Join(parts, "/"))
		}
		return err
	})
	return err == nil && printed == present
}

// sameParameter compares values of a parameter as the kernel reads them: numbers of any base, between
// any spaces.
func sameParameter(present, value string) bool {
	return slices.EqualFunc(strings.Fields(present), strings.Fields(value), func(a, b string) bool {
		x, errA := strconv.ParseInt(a, 0, 64)
		y, errB := strconv.ParseInt(b, 0, 64)
		return a == b || errA == nil && errB == nil && x == y
	})
}

// MACArgs is the key "args" of plugins that take a MAC.
type MACArgs struct {
	CNI struct {
		MAC string `json:"mac"`
		IPArgs
	} `json:"cni"`
}

// MACCapability is the key "runtimeConfig" of plugins with the capability "mac".
type MACCapability struct {
	MAC string `json:"mac"`
}

// RequestedMAC returns the MAC that the runtime asks for: the capability comes before the
// configuration's args, and these before CNI_ARGS. Empty: the kernel chooses.
func RequestedMAC(cniArgs string, args MACArgs, capability MACCapability) (string, error) {
	var env struct {
		types.CommonArgs
		MAC types.UnmarshallableString
	}
	if cniArgs != "" {
		if err := types.LoadArgs(cniArgs, &env); err != nil {
			return "", err
		}
	}
	for _, mac := range []string{capability.MAC, args.CNI.MAC, string(env.MAC)} {
		if mac != "" {
			return mac, nil
		}
	}
	return "", nil
}

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
		return nil // a kernel without the parameter needs no repair
	}
	return c.Repair.Ensure(fmt.Sprintf("%s is %s, was set to 1", forwarding(isV4), value), func() error { return c.Forward(isV4) })
}

// KeepAdvertised has the host go on with what it has from router advertisements, for plugins that switch IPv6 forwarding on.
// It is safe to repeat. Where settings are read-only, these plugins switch nothing on.
func KeepAdvertised() error {
	var sysctls sysctl.Tree
	if value, err := sysctls.Get(advertised.Forwarding); err != nil || value == "1" {
		return nil // a kernel without IPv6 has nothing of it
	}
	if err := advertised.Keep(&sysctls); !errors.Is(err, unix.EROFS) {
		return err
	}
	return nil
}
