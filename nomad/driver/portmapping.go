// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package driver

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/allocnet/allocnet/allocation"
	"github.com/allocnet/allocnet/selection"
)

// portMappings reads the host ports that a network block chooses. HCL makes texts of their numbers.
func portMappings(network string, mappings []map[string]string) ([]selection.PortMapping, error) {
	var all []selection.PortMapping
	for i, keys := range mappings {
		m, err := portMapping(keys)
		if err != nil {
			return nil, fmt.Errorf("config: network %q: port_mappings[%d]: %w", network, i, err)
		}
		all = append(all, m)
	}
	return all, nil
}

func portMapping(keys map[string]string) (m selection.PortMapping, err error) {
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		value := keys[key]
		switch key {
		case "host_port":
			m.HostPort, err = allocation.ParsePortRange(value)
		case "container_port":
			if m.ContainerPort, err = strconv.Atoi(value); err != nil {
				err = fmt.Errorf("container_port %q: want a port from 1 to 65535", value)
			}
		case "protocol":
			m.Protocol = value
		case "host_ip":
			m.HostIP = value
		default:
			err = fmt.Errorf("unknown key %q: want host_port, container_port, protocol or host_ip", key)
		}
		if err != nil {
			return m, err
		}
	}
	return m, nil
}
