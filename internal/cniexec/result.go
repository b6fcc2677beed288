// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package cniexec

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
)

// checkResult refuses a result that would crash its readers, among them libcni
// and Nomad's client: an address on an interface that is not listed, and null
// in place of an object.
func checkResult(data []byte) error {
	var result struct {
		Interfaces []*json.RawMessage `json:"interfaces"`
		IPs        []*struct {
			Interface *int `json:"interface"`
		} `json:"ips"`
		Routes []*json.RawMessage `json:"routes"`
	}
	if err := json.Unmarshal(data, &result); err != nil {
		return fmt.Errorf("result: %w", err)
	}
	if slices.Contains(result.Interfaces, nil) || slices.Contains(result.Routes, nil) {
		return errors.New("result: null in place of an interface or a route")
	}
	for i, ip := range result.IPs {
		if ip == nil {
			return fmt.Errorf("result: ips[%d] is null", i)
		}
		if at := ip.Interface; at != nil && (*at < 0 || *at >= len(result.Interfaces)) {
			return fmt.Errorf("result: ips[%d] is of interface number %d, and the result has %d", i, *at, len(result.Interfaces))
		}
	}
	return nil
}
