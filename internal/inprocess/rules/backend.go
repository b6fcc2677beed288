// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package rules

import (
	"cmp"
	"context"
	"os/exec"

	"github.com/allocnet/allocnet/internal/netfilter"
)

// Names of the backends of rules.
const (
	BackendIPTables = "iptables"
	BackendNFTables = "nftables"
)

// Backend returns the configured backend, or that which the host has, iptables first. kind is which iptables the host had
// when the rules were made.
func Backend(ctx context.Context, configured *string, kind Kind) string {
	switch {
	case configured != nil:
		return *configured
	case !supportsIPTables(ctx, kind) && netfilter.HasNFTables(context.Background()):
		return BackendNFTables
	}
	return BackendIPTables
}

// supportsIPTables tells whether iptables is usable. It is asked itself only if the answer
// depends on modules that the kernel may load.
func supportsIPTables(ctx context.Context, kind Kind) bool {
	if _, err := exec.LookPath(kind.program(netfilter.IPv4, "")); err != nil {
		return kind != "" // it was there, and has to be there to remove them
	}
	if cmp.Or(kind, CurrentKind()) == KindNFT {
		return netfilter.HasNFTables(context.Background())
	}
	// If it does not answer because another program has its lock, it is usable.
	_, err := (&iptablesProgram{ctx: ctx, kind: kind}).hasChain("filter", "INPUT")
	return err == nil || ctx.Err() != nil || exits(err, exitLocked)
}
