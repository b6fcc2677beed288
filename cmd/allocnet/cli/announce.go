// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package cli

import (
	"net/netip"

	"github.com/hashicorp/go-hclog"
	"github.com/spf13/cobra"

	"github.com/allocnet/allocnet/hook"
	"github.com/allocnet/allocnet/internal/detached"
	"github.com/allocnet/allocnet/internal/texts"
)

const announceCommand = "announce-again"

// NewAnnounce returns the command of the process that announces addresses some times more.
func NewAnnounce() *cobra.Command {
	return &cobra.Command{
		Use:    announceCommand + " NETNS INTERFACE ADDRESS...",
		Short:  "Announce addresses some times more",
		Hidden: true,
		RunE:   func(cmd *cobra.Command, args []string) error { return hook.AnnounceAgain(cmd.Context(), args) },
	}
}

// announceAgain starts that process, so that the caller does not wait for it.
func announceAgain(log hclog.Logger) func(netns, iface string, addresses []netip.Addr) {
	return func(netns, iface string, addresses []netip.Addr) {
		if err := detached.Start(nil, append([]string{announceCommand, netns, iface}, texts.Of(addresses)...)...); err != nil {
			log.Debug("addresses are announced once", "interface", iface, "error", err)
		}
	}
}
