// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package route

import "slices"

type setting struct{ path, value string }

// ipv6Off is the path of the sysctl that takes IPv6 from an interface.
func ipv6Off(device string) string { return "net/ipv6/conf/" + device + "/disable_ipv6" }

// settingsOf returns those of a device. A packet may arrive on it whose answer takes another
// interface: that of another host itself (RFC 3704, 2.4). Who can send a packet into it is not
// trusted, so it learns no routes: neither by router advertisements (RFC 4861) nor by redirects.
func settingsOf(device string, hasIPv6 bool) []setting {
	ipv4, ipv6 := "net/ipv4/conf/"+device+"/", "net/ipv6/conf/"+device+"/"
	all := []setting{{ipv4 + "rp_filter", "2"}, {ipv4 + "accept_redirects", "0"}}
	if hasIPv6 {
		all = append(all, setting{ipv6 + "accept_ra", "0"}, setting{ipv6 + "autoconf", "0"}, setting{ipv6 + "accept_redirects", "0"})
	}
	return all
}

func (s *socket) isTuned(device string, hasIPv6 bool) bool {
	return !slices.ContainsFunc(settingsOf(device, hasIPv6), func(x setting) bool {
		value, err := s.parameters.Get(x.path)
		return err != nil || value != x.value
	})
}

func (s *socket) tune(device string, hasIPv6 bool) error {
	for _, x := range settingsOf(device, hasIPv6) {
		if err := s.parameters.Set(x.path, x.value); err != nil {
			return err
		}
	}
	return nil
}
