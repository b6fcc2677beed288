// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package onrecord

import (
	"encoding/json"
	"slices"

	types100 "github.com/containernetworking/cni/pkg/types/100"

	"github.com/allocnet/allocnet/internal/netns"
	"github.com/allocnet/allocnet/state"
)

// Readvertise returns what is on record of what was observed with the addresses that router advertisements give the interface by now.
func Readvertise(a state.Attachment) (json.RawMessage, error) {
	seen, err := ReadStatus(a)
	if err != nil {
		return nil, err
	}
	result, err := ParseResult(a.Result)
	if err != nil {
		return nil, err
	}
	seen.Addresses = append(Addresses(result), a.Advertised...)
	return json.Marshal(seen)
}

// withAdvertised returns the result with the addresses that router advertisements have given the interface, which plugins do not know.
func withAdvertised(a state.Attachment) (json.RawMessage, error) {
	if a.Result == nil {
		return nil, nil
	}
	list, err := List(a)
	if err != nil {
		return nil, err
	}
	result, err := ParseResult(a.Result)
	if err != nil {
		return nil, err
	}
	at := slices.IndexFunc(result.Interfaces, func(i *types100.Interface) bool { return i.Name == a.Interface && isInside(i) })
	for _, p := range a.Advertised {
		ip := &types100.IPConfig{Address: *netns.IPNet(p)}
		if at >= 0 {
			ip.Interface = types100.Int(at)
		}
		result.IPs = append(result.IPs, ip)
	}
	return EncodeResult(result, list.CNIVersion)
}
