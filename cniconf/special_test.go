// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package cniconf

import (
	"fmt"
	"strings"
	"testing"
)

// TestCheckAddresses: each end of a special prefix counts, and what is on a dummy or is a mistake does not; hook.TestSpecialAddresses has all ways.
func TestCheckAddresses(t *testing.T) {
	for ipam, want := range map[string]string{
		`"type": "host-local", "subnet": "223.0.0.0/8"`:                                                              "",
		`"type": "host-local", "subnet": "222.0.0.0/7", "gateway": "224.0.0.0"`:                                      "gateway 224.0.0.0",
		`"type": "host-local", "subnet": "240.0.0.0/8"`:                                                              "",
		`"type": "host-local", "subnet": "10.0.0.0/24", "gateway": "239.255.255.255"`:                                "gateway 239.255.255.255",
		`"type": "host-local", "ranges": [[{"rangeStart": "224.0.0.1"}]]`:                                            "",
		`"type": "static", "addresses": [{"address": "fd00::1/64", "gateway": "ff02::1"}]`:                           "gateway ff02::1",
		`"type": "static", "addresses": [{"address": "127.0.0.1"}, {"address": "fd00::1/64", "gateway": "fe80::1"}]`: "",
	} {
		for _, plugin := range []string{"macvlan", "dummy"} {
			n, err := ParseNetwork("n", fmt.Appendf(nil, `{"cniVersion": "1.0.0", "name": "n", "plugins": [{"type": %q, "ipam": {%s}}]}`, plugin, ipam))
			if err != nil {
				t.Fatal(err)
			}
			err = n.CheckAddresses()
			if refused := want != "" && plugin != "dummy"; (err != nil) != refused || refused && !strings.Contains(err.Error(), want+` in "ipam" of macvlan`) {
				t.Errorf("%s, %s: %v, want %q", plugin, ipam, err, want)
			}
		}
	}
}
