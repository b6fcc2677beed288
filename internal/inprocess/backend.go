// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package inprocess

import (
	"context"
	"errors"
	"fmt"
	"os/exec"

	"github.com/coreos/go-iptables/iptables"
)

// Names of the backends of rules.
const (
	iptablesBackend = "iptables"
	nftablesBackend = "nftables"
)

// backend returns the configured backend, or that which the host has, iptables first.
func backend(ctx context.Context, configured *string) string {
	switch {
	case configured != nil:
		return *configured
	case !supportsIPTables(ctx) && supportsNFTables():
		return nftablesBackend
	}
	return iptablesBackend
}

// supportsIPTables tells whether iptables is usable. It is asked itself only if the answer
// depends on modules that the kernel may load.
func supportsIPTables(ctx context.Context) bool {
	if _, err := exec.LookPath("iptables"); err != nil {
		return false
	}
	host := &iptablesHost{family: iptables.ProtocolIPv4}
	if host.identify(); !host.legacy {
		return supportsNFTables()
	}
	return canListRules(ctx)
}

// canListRules tells whether iptables can tell whether a chain exists. If it does not answer
// because another program has its lock, it is usable.
func canListRules(ctx context.Context) bool {
	err := exec.CommandContext(ctx, "iptables", "-t", "filter", "-S", "INPUT", "1", fmt.Sprintf("--wait=%d", lockTimeout)).Run()
	var exit *exec.ExitError
	return err == nil || ctx.Err() != nil || errors.As(err, &exit) && (exit.ExitCode() == noSuchChain || exit.ExitCode() == lockHeld)
}

// Exit codes of iptables.
const (
	noSuchChain = 1
	lockHeld    = 4
)

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
