// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package step

import (
	"fmt"
	"strings"

	"github.com/allocnet/allocnet/hook/internal/onrecord"
	"github.com/allocnet/allocnet/internal/netns"
)

// ipv6Off says why a plugin could not give an IPv6 address to a link of the host.
var ipv6Off = step{Judge: checkIPv6}

// checkIPv6 has the error of a plugin that could not give an IPv6 address to a link of the host say why: the kernel says
// "permission denied".
func checkIPv6(w *Work, c Call, err error) error {
	if err == nil || !strings.Contains(err.Error(), "add IP addr") || !strings.HasSuffix(strings.TrimSpace(err.Error()), "permission denied") {
		return err
	}
	links := []string{netns.NewInterfaces}
	for bridge := range onrecord.Bridges(c.List) {
		links = append(links, bridge)
	}
	for _, link := range links {
		if off, unknown := w.Host.IsIPv6Off(link); off && unknown == nil {
			return fmt.Errorf("%w: IPv6 is switched off on the host: switch it on (sysctl net.ipv6.conf.all.disable_ipv6=0 net.ipv6.conf.default.disable_ipv6=0), or remove the network's IPv6 addresses", err)
		}
	}
	return err
}
