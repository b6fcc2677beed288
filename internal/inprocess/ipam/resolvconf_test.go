// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package ipam

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/containernetworking/cni/pkg/types"
	"github.com/google/go-cmp/cmp"
)

func TestParseResolvConf(t *testing.T) {
	path := filepath.Join(t.TempDir(), "resolv.conf")
	write := func(text string) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("# comment\n; comment\n\n#nameserver 192.0.2.9\nnameserver 192.0.2.1 more\n  nameserver\t192.0.2.2\n" +
		"domain old.example\ndomain example.com\nsearch a.example b.example\nsearch c.example\noptions\noptions ndots:5\noptions rotate")
	want := types.DNS{
		Nameservers: []string{"192.0.2.1", "192.0.2.2"},
		Domain:      "example.com",
		Search:      []string{"a.example", "b.example", "c.example"},
		Options:     []string{"ndots:5", "rotate"},
	}
	got, err := parseResolvConf(path)
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v, (-want +got):\n%s", err, diff)
	}
	write(strings.Repeat("x", 1<<17))
	if _, err := parseResolvConf(path); err == nil {
		t.Error("a line without end is no error")
	}
	if _, err := parseResolvConf(path + ".missing"); err == nil {
		t.Error("a missing file is no error")
	}
}
