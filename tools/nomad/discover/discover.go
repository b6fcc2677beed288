// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Package discover has no provider of addresses: the tests join servers by their addresses.
package discover

import (
	"fmt"
	"log"
)

// Discover is what Nomad asks for the addresses of servers.
type Discover struct{}

// Addrs fails.
func (*Discover) Addrs(config string, _ *log.Logger) ([]string, error) {
	return nil, fmt.Errorf("%q: this Nomad has no provider of addresses: want addresses", config)
}

// Help tells that there is nothing to configure.
func (*Discover) Help() string { return "There is no provider." }

// Names returns none.
func (*Discover) Names() []string { return nil }
