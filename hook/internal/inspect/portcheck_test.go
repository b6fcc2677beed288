// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package inspect

import (
	"errors"
	"net/netip"
	"testing"

	"github.com/containernetworking/cni/pkg/types"
)

// TestJudgePortCheck has what portmap 1.1.1 reports of ports that have all their rules, and
// of ports that lack some.
func TestJudgePortCheck(t *testing.T) {
	v4, v6 := netip.MustParsePrefix("10.88.0.2/16"), netip.MustParsePrefix("fd00:88::2/64")
	noChain := "chain CNI-DN-0123 not found in iptables table nat"
	noRule := func(address string) string {
		return "rule [[-p tcp --dport 80 -s 127.0.0.1 -j CNI-HOSTPORT-SETMARK] [-p tcp --dport 80 -j DNAT --to-destination " + address + ":80]] in chain CNI-DN-0123 not found in table nat"
	}
	for name, test := range map[string]struct {
		addresses []netip.Prefix
		text      string
		want      string // sound, damaged or unknown
	}{
		"IPv4: the chain of IPv6":                     {[]netip.Prefix{v4}, "could not check ipv6 dnat: " + noChain, "sound"},
		"IPv4: no chain":                              {[]netip.Prefix{v4}, "could not check ipv4 dnat: " + noChain, "damaged"},
		"IPv4: no rule":                               {[]netip.Prefix{v4}, "could not check ipv4 dnat: " + noRule("10.88.0.2"), "damaged"},
		"IPv6: the chain of IPv4":                     {[]netip.Prefix{v6}, "could not check ipv4 dnat: " + noChain, "unknown"},
		"IPv6: no chain":                              {[]netip.Prefix{v6}, "could not check ipv6 dnat: " + noChain, "damaged"},
		"both: the rule of IPv4 in the chain of IPv6": {[]netip.Prefix{v4, v6}, "could not check ipv6 dnat: " + noRule("10.88.0.2"), "unknown"},
		"both: the rule of IPv6 in the chain of IPv4": {[]netip.Prefix{v4, v6}, "could not check ipv4 dnat: " + noRule("[fd00:88::2]"), "unknown"},
		"both: no rule of IPv4":                       {[]netip.Prefix{v4, v6}, "could not check ipv4 dnat: " + noRule("10.88.0.2"), "damaged"},
		"both: no rule of IPv6":                       {[]netip.Prefix{v4, v6}, "could not check ipv6 dnat: " + noRule("[fd00:88::2]"), "damaged"},
		"both: no chain of IPv4":                      {[]netip.Prefix{v4, v6}, "could not check ipv4 dnat: " + noChain, "damaged"},
		"both: no chain of IPv6":                      {[]netip.Prefix{v4, v6}, "could not check ipv6 dnat: " + noChain, "damaged"},
		"another error":                               {[]netip.Prefix{v4}, "Required prevResult missing", "damaged"},
	} {
		err := JudgePortCheck(&types.Error{Code: 999, Msg: test.text}, test.addresses)
		got := "unknown"
		if err == nil {
			got = "sound"
		} else if IsDamage(err) {
			got = "damaged"
		}
		if got != test.want {
			t.Errorf("%s: %s, want %s: %v", name, got, test.want, err)
		}
	}
	if other := errors.New("it hangs"); !errors.Is(JudgePortCheck(other, nil), other) {
		t.Error("an error that is not the plugin's is lost")
	}
}
