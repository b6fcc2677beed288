// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package allocation

import (
	"encoding/json"
	"slices"
	"strings"
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

// TestRanges: consecutive ports are one, if both sides, the protocol and the address of the host are.
func TestRanges(t *testing.T) {
	single := func(host, container int32, protocol, ip string) PortMapping {
		return PortMapping{HostPort: host, ContainerPort: container, Protocol: protocol, HostIP: ip}
	}
	for want, given := range map[string][]PortMapping{
		"": nil,
		"8000-8002->80-82/tcp, 8000-8001->80-81/udp": {
			single(8000, 80, "tcp", ""), single(8000, 80, "udp", ""), single(8001, 81, "tcp", ""), single(8001, 81, "udp", ""), single(8002, 82, "tcp", ""),
		},
		"8000->80/tcp, 8001->82/tcp, 8002->83/udp, 10.0.0.1:8003->84/tcp, 8005->86/tcp": {
			single(8000, 80, "tcp", ""), single(8001, 82, "tcp", ""), single(8002, 83, "udp", ""), single(8003, 84, "tcp", "10.0.0.1"), single(8005, 86, "tcp", ""),
		},
		"10-15->10-15/tcp": {{HostPort: 10, LastHostPort: 12, ContainerPort: 10, Protocol: "tcp"}, single(13, 13, "tcp", ""), {HostPort: 14, LastHostPort: 15, ContainerPort: 14, Protocol: "tcp"}},
	} {
		before := slices.Clone(given)
		var got []string
		for _, r := range Ranges(given) {
			got = append(got, r.String())
		}
		if text := strings.Join(got, ", "); text != want || !slices.Equal(before, given) {
			t.Errorf("%v are %s, want %s", given, text, want)
		}
	}
}

// TestRangesOfMany: ports that are in no range cost little, else this takes minutes: the author of a job decides how many there are.
func TestRangesOfMany(t *testing.T) {
	var mappings []PortMapping
	for i := range int32(60000) {
		mappings = append(mappings, PortMapping{HostPort: 1000 + i, ContainerPort: 60000 - i, Protocol: "tcp"})
	}
	if got := Ranges(mappings); !slices.Equal(got, mappings) {
		t.Errorf("%d ranges, want each of the %d ports", len(got), len(mappings))
	}
}
