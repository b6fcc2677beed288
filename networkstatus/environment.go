// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package networkstatus

import (
	"fmt"
	"strings"

	"github.com/allocnet/allocnet/hook"
	"github.com/allocnet/allocnet/internal/texts"
)

// environment returns variables for a template with env = true. Each name ends in the
// name of the network, in which '_' replaces other characters than letters and
// digits, as in Nomad's variables. Of several attachments to one network it has the
// first.
func environment(a *hook.Allocation) []byte {
	var b strings.Builder
	seen := map[string]bool{}
	for _, n := range a.Attachments {
		name := variable(n.Network)
		if seen[name] {
			continue
		}
		seen[name] = true
		fmt.Fprintf(&b, "ALLOCNET_INTERFACE_%s=%s\n", name, n.Interface)
		fmt.Fprintf(&b, "ALLOCNET_MAC_%s=%s\n", name, n.MAC)
		fmt.Fprintf(&b, "ALLOCNET_MTU_%s=%d\n", name, n.MTU)
		if len(n.Addresses) > 0 {
			fmt.Fprintf(&b, "ALLOCNET_IP_%s=%s\n", name, n.Addresses[0].Addr())
			fmt.Fprintf(&b, "ALLOCNET_CIDRS_%s=%s\n", name, texts.Join(n.Addresses, ","))
		}
	}
	return []byte(b.String())
}

func variable(network string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' {
			return r
		}
		return '_'
	}, network)
}
