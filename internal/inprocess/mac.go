// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package inprocess

import (
	"github.com/containernetworking/cni/pkg/types"
)

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
