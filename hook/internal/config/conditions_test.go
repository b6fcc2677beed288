// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package config

import (
	"strings"
	"testing"
)

func TestHostName(t *testing.T) {
	for conditions, want := range map[string]string{
		"":                              "",
		"-s 10.0.0.0/8":                 "",
		"-s 10/8":                       "",
		"! -d 10.0.0.0/255.0.0.0":       "",
		"--source 10.1.0.1,10.2.0.0/16": "",
		"-s fd00::/8":                   "",
		"-i eth0.10 -o web0":            "",
		"-p tcp --sport http":           "",
		"-m addrtype --src-type LOCAL":  "",
		"-m multiport --destination-ports http,https":    "",
		"-m iprange --src-range 10.0.0.1-10.0.0.9":       "",
		"-m set --match-set blocked src":                 "",
		"-m comment --comment src":                       "",
		"-m string --string -s":                          "",
		"-s router.example.com":                          "router.example.com",
		"-srouter":                                       "router",
		"! -d router/24":                                 "router",
		"--source=router":                                "router",
		"--src 10.0.0.1,router":                          "router",
		"--destin router":                                "router",
		"-m conntrack --ctorigdst router":                "router",
		"-m policy --tunnel-src router":                  "router",
		"-m ipvs --vaddr router":                         "router",
		"-nvs router":                                    "router",
		"-s 7-7.8":                                       "7-7.8",
		"-s 0x7f000001":                                  "",
		"-m comment --comment -src":                      "",
		"ip saddr 10.0.0.0/8":                            "",
		"ip saddr { 10.0.0.1, 10.0.0.2-10.0.0.9 }":       "",
		"ip6 daddr != fd00::1":                           "",
		"ip saddr @trusted":                              "",
		"ether saddr 02:00:00:00:00:0a":                  "",
		"ip saddr & 255.255.0.0 == 10.0.0.0":             "",
		"ip saddr . tcp dport { 10.0.0.1 . 80 }":         "",
		"ip saddr vmap { 10.0.0.1 : accept }":            "",
		"iifname eth0 ip saddr router":                   "router",
		"ip daddr != router.example.com tcp sport 1024":  "router.example.com",
		"ip6 saddr { fd00::1, router }":                  "router",
		"ip saddr{router}":                               "router",
		"ip saddr!=router":                               "router",
		"ip saddr >= router":                             "router",
		"ip saddr ! ( router )":                          "router",
		"ip saddr \"router\"":                            "router",
		"ip saddr 10.0.0.1-router":                       "10.0.0.1-router",
		"ip saddr & 255.255.0.0 == router":               "router",
		"ip saddr and 255.255.0.0 eq router":             "router",
		"ip saddr vmap { router : accept }":              "router",
		"ip saddr . tcp dport { router . 80 }":           "router",
		"tcp dport . ip saddr { 80 . router }":           "router",
		"ct original saddr router":                       "router",
		"ct original ip saddr router":                    "router",
		"rt nexthop router":                              "router",
		"rt ip6 nexthop router":                          "router",
		"iifname . ip saddr { eth0 . 10.0.0.1 }":         "",
		"ip saddr . iifname @trusted tcp dport { http }": "",
		"tcp dport { http, https } ip saddr 10.0.0.1":    "",
		"fib saddr type local":                           "",
		"-s 10.0.0.256":                                  "10.0.0.256",
		"-s 1.2.3.4.5":                                   "1.2.3.4.5",
		"-s 10.08":                                       "10.08",
		"-s cafe:8":                                      "cafe:8",
		"ip saddr {router:accept}":                       "router",
		"ip saddr vmap { 10.0.0.1: accept, *: drop }":    "",
		"ip6 saddr vmap { fd00::1: accept, cafe: drop }": "cafe",
		"ip6 saddr vmap { fd00::/8:accept }":             "",
		"ip daddr 10.0.0.1 comment \"ip saddr router\"":  "",
	} {
		if got := hostName(strings.Fields(conditions)); got != want {
			t.Errorf("%s: %q, want %q", conditions, got, want)
		}
	}
	for want, words := range map[string][]string{"router": {"ip saddr { 10.0.0.1, router }"}, "": {"-m", "comment", "--comment", "ip saddr router"}, "late": {"", "-s", "late"}} {
		if got := hostName(words); got != want {
			t.Errorf("%q: %q", words, got)
		}
	}
}
