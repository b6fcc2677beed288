// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package inspect

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/containernetworking/cni/pkg/types"
)

// JudgePortCheck returns what remains of the error of a CHECK of portmap. Before 1.3.0 the
// plugin looks for the rules of each address in the tables of both families, and fails in
// those of the other one. It begins with the IPv4 address, and with the tables of IPv4.
func JudgePortCheck(err error, addresses []netip.Prefix) error {
	var own *types.Error
	if !errors.As(err, &own) {
		return err
	}
	text, isPortCheck := strings.CutPrefix(own.Msg, "could not check ipv")
	sought := soughtFamily(text, addresses)
	switch {
	case !isPortCheck || sought == "" || strings.HasPrefix(text, sought):
		return err
	case sought == "4" && !slices.ContainsFunc(addresses, isIPv6):
		return nil // the tables of IPv4 have the rules
	}
	// Not wrapped: the plugin's error is no damage.
	return fmt.Errorf("the plugin portmap is older than 1.3.0 and cannot examine ports of IPv6 addresses: install newer CNI plugins: it reports %q", own.Msg)
}

// soughtFamily returns "4" or "6", the family of the address whose rules portmap did not
// find, or "" if the text does not have it.
func soughtFamily(text string, addresses []netip.Prefix) string {
	const destination = "--to-destination "
	v6 := slices.ContainsFunc(addresses, isIPv6)
	v4 := slices.ContainsFunc(addresses, func(p netip.Prefix) bool { return !isIPv6(p) })
	switch {
	case v4 && !v6, v4 && strings.Contains(text, destination) && !strings.Contains(text, destination+"["):
		return "4"
	case v6 && !v4, v6 && strings.Contains(text, destination+"["):
		return "6"
	}
	return ""
}

func isIPv6(p netip.Prefix) bool { return p.Addr().Is6() }
