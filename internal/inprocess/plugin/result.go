// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package plugin

import (
	"encoding/json"
	"net"

	current "github.com/containernetworking/cni/pkg/types/100"
)

// Find returns the interface of a result with that name and sandbox; nil if there is none.
func Find(result *current.Result, name, sandbox string) *current.Interface {
	for _, i := range result.Interfaces {
		if i.Name == name && i.Sandbox == sandbox {
			return i
		}
	}
	return nil
}

// Networks returns the addresses of a result.
func Networks(result *current.Result) []net.IPNet {
	all := make([]net.IPNet, len(result.IPs))
	for i, address := range result.IPs {
		all[i] = address.Address
	}
	return all
}

// Encode returns a result in the version that the network's configuration asks for.
func Encode(result *current.Result, cniVersion string) ([]byte, error) {
	converted, err := result.GetAsVersion(cniVersion)
	if err != nil {
		return nil, err
	}
	return json.MarshalIndent(converted, "", "    ")
}
