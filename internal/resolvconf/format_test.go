// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package resolvconf

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestParse: what is written is read, and the rules of resolv.conf(5).
func TestParse(t *testing.T) {
	for text, want := range map[string]Config{
		exampleText: {Servers: example.Servers, Searches: example.Searches, Options: example.Options},
		"; comment\n#nameserver 192.0.2.1\nnameserver\n\tnameserver\t192.0.2.2 # first\n": {Servers: []string{"192.0.2.2"}},
		"search a b\ndomain c\noptions x\noptions y z":                                    {Domain: "c", Options: []string{"x", "y", "z"}},
		"domain c\nsearch a b\n": {Searches: []string{"a", "b"}},
	} {
		if diff := cmp.Diff(want, parse(text)); diff != "" {
			t.Errorf("%q: %s", text, diff)
		}
	}
}

// TestHost: servers that only the host reaches are of no use in another namespace.
func TestHost(t *testing.T) {
	const stub = "nameserver 127.0.0.53\noptions edns0\nsearch a.example\n"
	for name, test := range map[string]struct {
		etc, resolved string
		want          Config
	}{
		"no files":           {},
		"outside":            {etc: "nameserver 192.0.2.1\n", resolved: "nameserver 192.0.2.2\n", want: Config{Servers: []string{"192.0.2.1"}}},
		"systemd-resolved":   {etc: stub, resolved: "nameserver 192.0.2.2\n", want: Config{Servers: []string{"192.0.2.2"}}},
		"only systemd's":     {resolved: "nameserver 192.0.2.2\n", want: Config{Servers: []string{"192.0.2.2"}}},
		"a cloud's":          {etc: "nameserver 169.254.169.254\n", resolved: "nameserver 192.0.2.2\n", want: Config{Servers: []string{"169.254.169.254"}}},
		"of all addresses":   {etc: "nameserver 0.0.0.0\nnameserver ::\n", resolved: "nameserver 192.0.2.2\n", want: Config{Servers: []string{"192.0.2.2"}}},
		"one of the servers": {etc: "nameserver ::1\nnameserver fe80::1%eth0\nnameserver 192.0.2.1\n", want: Config{Servers: []string{"192.0.2.1"}}},
		"none outside": {
			etc: stub, resolved: "nameserver ::1\n",
			want: Config{Searches: []string{"a.example"}, Options: []string{"edns0"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			files := []string{filepath.Join(t.TempDir(), "resolv.conf"), filepath.Join(t.TempDir(), "resolved.conf")}
			for i, text := range []string{test.etc, test.resolved} {
				if text == "" {
					continue
				}
				if err := os.WriteFile(files[i], []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			got, err := Host(files...)
			if diff := cmp.Diff(test.want, got); err != nil || diff != "" {
				t.Errorf("%v: %s", err, diff)
			}
		})
	}
	if _, err := Host(t.TempDir()); err == nil {
		t.Error("a file that cannot be read is no error")
	}
}
