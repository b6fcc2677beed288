// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package inprocess

import (
	"crypto/rand"
	"net"

	"github.com/containernetworking/cni/pkg/types"
)

// newMAC returns a random MAC, for links that get it when they are made: udev replaces MACs that the kernel
// has chosen, after the result of ADD has them.
func newMAC() net.HardwareAddr {
	mac := make(net.HardwareAddr, 6)
	_, _ = rand.Read(mac) // never fails
	mac[0] = mac[0]&^1 | 2
	return mac
}

// newPortMAC returns one for a port of a bridge: higher than what other ports have, because a bridge
// without a MAC of its own takes the lowest one.
func newPortMAC() net.HardwareAddr {
	mac := newMAC()
	mac[0], mac[1] = 0xfe, mac[1]|0x80
	return mac
}

// macArgs is the key "args" of plugins that take a MAC.
type macArgs struct {
	CNI struct {
		MAC string `json:"mac"`
		ipArgs
	} `json:"cni"`
}

// macCapability is the key "runtimeConfig" of plugins with the capability "mac".
type macCapability struct {
	MAC string `json:"mac"`
}

// requestedMAC returns the MAC that the runtime asks for: the capability comes before the
// configuration's args, and these before CNI_ARGS. Empty: the kernel chooses.
func requestedMAC(cniArgs string, args macArgs, capability macCapability) (string, error) {
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
