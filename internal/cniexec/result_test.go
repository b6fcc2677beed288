// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package cniexec

import "testing"

func TestCheckResult(t *testing.T) {
	for text, want := range map[string]bool{
		`{"interfaces": [{"name": "eth0"}], "ips": [{"interface": 0, "address": "10.0.0.1/24"}, {"address": "10.0.0.2/24"}]}`: true,
		`{"ips": null}`: true,
		`{"interfaces": [{"name": "eth0"}], "ips": [{"interface": 1, "address": "10.0.0.1/24"}]}`: false,
		`{"interfaces": [{"name": "eth0"}], "ips": [{"interface": -1}]}`:                          false,
		`{"ips": [{"interface": 0}]}`: false,
		`{"ips": [null]}`:             false,
		`{"interfaces": [null]}`:      false,
		`{"routes": [null]}`:          false,
		`[]`:                          false,
		``:                            false,
	} {
		if err := checkResult([]byte(text)); (err == nil) != want {
			t.Errorf("%s: %v, want well formed: %t", text, err, want)
		}
	}
}
