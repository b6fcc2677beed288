// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package inprocess

import (
	"context"
	"os/exec"

	"github.com/containernetworking/plugins/pkg/utils"
	"github.com/coreos/go-iptables/iptables"
)

// Names of the backends of rules.
const (
	iptablesBackend = "iptables"
	nftablesBackend = "nftables"
)

// backend returns the configured backend, or that which the host has, iptables first.
func backend(configured *string) string {
	switch {
	case configured != nil:
		return *configured
	case !supportsIPTables() && supportsNFTables():
		return nftablesBackend
	}
	return iptablesBackend
}

// supportsIPTables tells whether iptables is usable. It is asked itself only if the answer
// depends on modules that the kernel may load.
func supportsIPTables() bool {
	if _, err := exec.LookPath("iptables"); err != nil {
		return false
	}
	host := &iptablesHost{family: iptables.ProtocolIPv4}
	if host.identify(); !host.legacy {
		return supportsNFTables()
	}
	return utils.SupportsIPTables()
}

// supportsNFTables tells whether the kernel has nftables; the program nft is not needed.
func supportsNFTables() bool {
	socket, err := dialNFTables(context.Background())
	if err != nil {
		return false
	}
	defer socket.Close() //nolint:errcheck // read only
	_, err = socket.generation()
	return err == nil
}
