// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package cniconf

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestUsage(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"a/10.0.0.2", "a/10.0.0.3", "a/fd00::5", "a/last_reserved_ip.0", "a/lock", "file/a"} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for ipam, want := range map[string]string{
		`"subnet": "10.0.0.0/24", "dataDir": "DIR"`:                                                      "ipv4 2 253",
		`"ranges": [[{"subnet": "10.0.0.0/24"}], [{"subnet": "fd00::/112"}]]`:                            "ipv4 0 253, ipv6 0 65534",
		`"dataDir": "DIR", "ranges": [[{"subnet": "10.0.0.0/30"}], [{"subnet": "fd00::/64"}]]`:           "ipv4 2 1, ipv6 1 18446744073709551614",
		`"subnet": "10.0.0.0/24", "rangeStart": "10.0.0.10", "rangeEnd": "10.0.0.19"`:                    "ipv4 0 10",
		`"subnet": "10.0.0.0/30", "gateway": "10.0.0.2"`:                                                 "ipv4 0 1",
		`"subnet": "10.0.0.0/24", "rangeStart": "10.0.0.9", "rangeEnd": "10.0.0.1"`:                      "",
		`"ranges": [[{"subnet": "10.0.0.0/30"}, {"subnet": "10.1.0.0/30"}]], "dataDir": "DIR/elsewhere"`: "ipv4 0 2",
		`"subnet": "x"`: "",
		`"subnet": "10.0.0.0/24", "dataDir": "DIR/file"`: "ipv4 0 253 and an error",
	} {
		ipam = strings.ReplaceAll(ipam, "DIR", dir)
		list, err := ParseList([]byte(`{"cniVersion": "1.0.0", "name": "a", "plugins": [{"type": "bridge", "ipam": {"type": "host-local", ` + ipam + `}}]}`))
		if err != nil {
			t.Fatal(err)
		}
		usage, err := (&Network{Name: "a", List: list}).Usage()
		var parts []string
		for _, u := range usage {
			parts = append(parts, fmt.Sprintf("%s %d %s", u.Family, u.Used, u.Total))
		}
		got := strings.Join(parts, ", ")
		if err != nil {
			got += " and an error"
		}
		if got != want {
			t.Errorf("%s: %q, %v, want %q", ipam, got, err, want)
		}
	}
	other, err := ParseList([]byte(`{"cniVersion": "1.0.0", "name": "a", "plugins": [{"type": "bridge", "ipam": {"type": "static"}}]}`))
	if err != nil {
		t.Fatal(err)
	}
	if usage, err := (&Network{Name: "a", List: other}).Usage(); !slices.Equal(usage, nil) || err != nil {
		t.Errorf("another IPAM plugin: %v, %v", usage, err)
	}
}
