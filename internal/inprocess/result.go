// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package inprocess

import (
	"encoding/json"
	"net"

	current "github.com/containernetworking/cni/pkg/types/100"
)

// find returns the interface of a result with that name and sandbox; nil if there is none.
func find(result *current.Result, name, sandbox string) *current.Interface {
	for _, i := range result.Interfaces {
		if i.Name == name && i.Sandbox == sandbox {
			return i
		}
	}
	return nil
}

// networks returns the addresses of a result.
func networks(result *current.Result) []net.IPNet {
	all := make([]net.IPNet, len(result.IPs))
	for i, address := range result.IPs {
		all[i] = address.Address
	}
	return all
}

// encode returns a result in the version that the network's configuration asks for.
func encode(result *current.Result, cniVersion string) ([]byte, error) {
	converted, err := result.GetAsVersion(cniVersion)
	if err != nil {
		return nil, err
	}
	return json.MarshalIndent(converted, "", "    ")
}
