// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package config

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"github.com/allocnet/allocnet/internal/hclfile"
)

// FuzzLoad reads agent files: what is accepted has values that the agent can
// work with, and what is not says where.
func FuzzLoad(f *testing.F) {
	f.Add([]byte("conf_dir = \"/x\"\nlimits {\n requests = 1\n}\nreconcile {\n interval = \"1s\"\n leaks = \"report\"\n}"))
	f.Add([]byte("socket {\n owner = \"0\"\n}\nmulti {\n primary = \"web\"\n}"))
	f.Add([]byte("log_level = \"${[for x in [1]: x]}\""))
	path := filepath.Join(f.TempDir(), "a.hcl")
	f.Fuzz(func(t *testing.T, text []byte) {
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		c, err := Load(path)
		var faults *hclfile.Error
		if err != nil {
			if !errors.As(err, &faults) || len(faults.Diagnostics) == 0 || faults.Error() == "" {
				t.Errorf("%q: %v says nothing", text, err)
			}
			return
		}
		l := c.Limits
		for _, n := range []int64{int64(l.Connections), int64(l.Requests), l.Body, int64(l.HeaderTimeout), int64(l.ReadTimeout), int64(l.RequestTimeout), int64(l.DrainTimeout), int64(c.CallTimeout), int64(c.Reconcile.Interval)} {
			if n < 0 {
				t.Errorf("%q: accepted %+v", text, c)
			}
		}
		if !slices.Contains([]string{"", "report", "remove"}, c.Reconcile.Leaks) {
			t.Errorf("%q: accepted %+v", text, c)
		}
		if len(c.NeedRestart(c)) != 0 {
			t.Errorf("%q differs from itself", text)
		}
	})
}

// FuzzUnit reads unit files.
func FuzzUnit(f *testing.F) {
	f.Add([]byte(`networks = [{ name = "storage", ips = ["10.89.0.9/16"], mtu = 1400 }, { name = "mgmt", interface = "net5" }]`))
	f.Add([]byte("primary = \"web\"\nnetworks = \"a@b,c\"\npublish = [\"http=8080:80/tcp\"]\nnetns = \"/x\""))
	f.Add([]byte(`networks = [for x in ["a"]: { name = x }]`))
	names := regexp.MustCompile(`^[\w.-]+$`)
	path := filepath.Join(f.TempDir(), "a.hcl")
	f.Fuzz(func(t *testing.T, text []byte) {
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		r, err := LoadUnit(path, "web")
		if err != nil {
			if err.Error() == "" {
				t.Errorf("%q: an error that says nothing", text)
			}
			return
		}
		all := slices.Clone(r.Networks)
		if r.Primary != nil {
			all = append(all, *r.Primary)
		}
		for _, e := range all {
			if !names.MatchString(e.Name + e.Interface) {
				t.Errorf("%q: accepted %+v", text, e)
			}
		}
		for _, p := range r.Ports {
			if p.HostPort < 1 || p.HostPort > 65535 || p.To < 0 || p.To > 65535 || p.Label == "" {
				t.Errorf("%q: accepted %+v", text, p)
			}
		}
		if r.ID != "web" {
			t.Errorf("%q is of unit %q", text, r.ID)
		}
	})
}
