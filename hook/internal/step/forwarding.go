// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package step

import (
	"context"

	"github.com/allocnet/allocnet/cniconf"
)

// forwarding does what is done in process before plugins that are executed change the host's sysctls.
var forwarding = step{Around: guardHost}

// guardHost guards services of the host that listen on 127.0.0.1 before the plugin portmap sets route_localnet; a host on which
// nothing can is left as the plugin leaves it. Before plugins switch forwarding on it keeps what the host has from router
// advertisements, which the kernel would remove. Whether an address will be of IPv6 the IPAM plugin decides.
func guardHost(ctx context.Context, w *Work, c Call, add func() error) error {
	if c.InProcess {
		return add()
	}
	if c.Attachment.CapabilityArgs["portMappings"] != nil {
		if err := w.Host.GuardLoopback(ctx); err != nil {
			w.log(c.Attachment).Warn("tasks can reach services of the host that listen on 127.0.0.1: nftables of this kernel keeps nothing from them", "error", err)
		}
	}
	n := cniconf.Network{Name: c.List.Name, List: c.List}
	if n.IsGateway() {
		if err := w.Host.KeepAdvertised(); err != nil {
			return err
		}
	}
	return add()
}
