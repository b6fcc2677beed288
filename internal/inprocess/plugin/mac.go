// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package plugin

import (
	"github.com/containernetworking/cni/pkg/types"
)

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
