// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package cleanup

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestListings: a table that the program cannot show is an error, and no list without rules.
func TestListings(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("PATH", dir)
	for text, want := range map[string]string{"*filter": "", "# Table `filter' is incompatible, use 'nft' tool.": "cannot show the table filter"} {
		for _, name := range []string{"iptables-nft", "iptables-nft-save"} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\necho \""+strings.ReplaceAll(text, "`", "\\`")+"\"\n"), 0o700); err != nil { //nolint:gosec // a program
				t.Fatal(err)
			}
		}
		all, err := Listings(t.Context())
		if want == "" && (err != nil || len(all) != 1 || !strings.HasPrefix(all[0].Text, text)) {
			t.Errorf("%+v, %v, want one listing of %s", all, err, text)
		}
		if want != "" && (err == nil || !strings.Contains(err.Error(), want) || len(all) > 0) {
			t.Errorf("%+v, %v, want the error %q", all, err, want)
		}
	}
}
