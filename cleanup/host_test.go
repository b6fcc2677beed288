// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package cleanup

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// TestListings: a table that the program cannot show is an error, and no list without rules.
func TestListings(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("PATH", dir)
	for text, want := range map[string]string{"*filter": "", "# Table `filter' is incompatible, use 'nft' tool.": "cannot show the table filter"} {
		for _, name := range []string{"iptables-nft", "iptables-nft-save"} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\necho \""+strings.ReplaceAll(text, "`", "\\`")+"\"\n"), 0o700); err != nil {
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

// TestListingsOfKinds: legacy tables are listed if there are some, and what cannot be listed is an error that leaves the others.
func TestListingsOfKinds(t *testing.T) {
	failed := errors.New("scripted")
	both := map[string]string{"iptables-nft": "*nat", "iptables-legacy": "*raw"}
	nft, legacy := Listing{Program: "iptables-nft", Text: "*nat"}, Listing{Program: "iptables-legacy", Text: "*raw"}
	for name, test := range map[string]struct {
		legacy string
		errs   map[string]error
		want   []Listing
	}{
		"both kinds":            {legacy: "raw", want: []Listing{nft, legacy}},
		"no legacy tables":      {want: []Listing{nft}},
		"unknown legacy tables": {legacy: "raw", errs: map[string]error{"legacy tables": failed}, want: []Listing{nft}},
		"no listing":            {legacy: "raw", errs: map[string]error{"iptables-nft-save": failed}, want: []Listing{legacy}},
	} {
		all, err := listings(t.Context(), &fakeSystem{saved: both, legacy: test.legacy, errs: test.errs})
		if !reflect.DeepEqual(all, test.want) || errors.Is(err, failed) != (test.errs != nil) {
			t.Errorf("%s: %+v, %v", name, all, err)
		}
	}
}

// TestMissingPrograms: where iptables has one kind alone, the programs of the others are not missing.
func TestMissingPrograms(t *testing.T) {
	present, missing := divided(&fakeSystem{saved: map[string]string{"iptables": ""}})
	if !reflect.DeepEqual(present, onlyBackends[:1]) || !reflect.DeepEqual(missing, onlyBackends[1:]) {
		t.Errorf("present %v, missing %v", present, missing)
	}
}
