// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package cleanup

import (
	"os"
	"testing"
)

// TestCatalogOfDirectories: a directory that is missing hides no network of
// another, whose leaks would stay.
func TestCatalogOfDirectories(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(dir+"/a.conf", []byte(`{"cniVersion": "1.0.0", "name": "a", "type": "bridge"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, dirs := range [][]string{nil, {dir + "/none"}} {
		if catalog, err := (&Collector{ConfDirs: dirs}).networks(); err != nil || len(catalog.Networks) != 0 {
			t.Errorf("%v: %+v, %v, want no networks", dirs, catalog, err)
		}
	}
	catalog, err := (&Collector{ConfDirs: []string{dir + "/none", dir}}).networks()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := catalog.Lookup("a"); err != nil {
		t.Error(err)
	}
}
