// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package allocation

import (
	"encoding/json"
	"testing"
)

// TestPortRange: one port is a number as ever, and several are a text.
func TestPortRange(t *testing.T) {
	for text, want := range map[string]string{
		`80`: "80", `"80"`: "80", `"10000-10199"`: `"10000-10199"`, `"1-65535"`: `"1-65535"`, `"7-7"`: "7",
		`0`: "0", `70000`: "70000", // refused with the label of the port, in package portmap
		`"0"`: "", `"2-1"`: "", `"1-65536"`: "", `"1-"`: "", `"-1"`: "", `""`: "", `"a"`: "", `"1-2-3"`: "", `1.5`: "", `true`: "", `null`: "0", `{}`: "", `"+1"`: "",
	} {
		var r PortRange
		err := json.Unmarshal([]byte(text), &r)
		if (err != nil) != (want == "") {
			t.Errorf("%s: %v", text, err)
		}
		if want == "" {
			continue
		}
		if got, err := json.Marshal(r); err != nil || string(got) != want {
			t.Errorf("%s is written as %s, %v, want %s", text, got, err, want)
		}
	}
}

// TestMappingOfARange: a mapping says all of its ports.
func TestMappingOfARange(t *testing.T) {
	for want, m := range map[string]PortMapping{
		"80->8080/tcp":                          {HostPort: 80, ContainerPort: 8080, Protocol: "tcp"},
		"10.0.0.1:10000-10199->10000-10199/udp": {HostPort: 10000, LastHostPort: 10199, ContainerPort: 10000, Protocol: "udp", HostIP: "10.0.0.1"},
	} {
		if got := m.String(); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	m := PortMapping{HostPort: 10, LastHostPort: 12, ContainerPort: 10}
	for port, want := range map[int32]bool{9: false, 10: true, 12: true, 13: false} {
		if m.Has(port) != want {
			t.Errorf("%d: %t", port, m.Has(port))
		}
	}
}
