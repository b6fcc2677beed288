// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package sandbox

import (
	"fmt"
	"os"
	"strings"
)

// inherited are the parameters of IPv4 that a new network namespace has from the machine, and what they are in the
// kernel's source, in an order in which one does not change those before it. IPv6 begins with its own.
var inherited = []string{
	"forwarding=0", "accept_redirects=1", "secure_redirects=1", "send_redirects=1", "shared_media=1", "rp_filter=0",
	"accept_local=0", "route_localnet=0", "proxy_arp=0", "arp_filter=0", "arp_announce=0", "arp_ignore=0", "arp_accept=0",
	"arp_notify=0", "promote_secondaries=0", "log_martians=0", "src_valid_mark=0",
}

// ResetSysctls makes the parameters of the caller's network namespace independent of the machine's.
func ResetSysctls() error {
	for _, parameter := range inherited {
		name, value, _ := strings.Cut(parameter, "=")
		for _, interfaces := range []string{"all", "default", "lo"} {
			path := "/proc/sys/net/ipv4/conf/" + interfaces + "/" + name
			if err := os.WriteFile(path, []byte(value), 0); err != nil {
				return fmt.Errorf("reset %s: %w", path, err)
			}
		}
	}
	return nil
}
