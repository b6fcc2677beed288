// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package license

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// text returns the whole text of a license, from the tests of the scanner.
func text(t *testing.T, name string) string {
	t.Helper()
	dir, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/google/licensecheck").Output()
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(dir)), "testdata", name+".t1"))
	_, license, found := strings.Cut(string(data), "\n\n")
	if err != nil || !found {
		t.Fatalf("%s: %v", name, err)
	}
	return license
}

// businessSource is the Business Source License as Nomad has it since 1.7.0, shortened.
const businessSource = `License text copyright (c) 2020 MariaDB Corporation Ab, All Rights Reserved.
"Business Source License" is a trademark of MariaDB Corporation Ab.

Parameters

Licensor:             HashiCorp, Inc.
Licensed Work:        Nomad Version 1.7.0 or later. The Licensed Work is (c) 2024 HashiCorp, Inc.
Additional Use Grant: You may make production use of the Licensed Work, provided Your use does not
                      include offering the Licensed Work to third parties on a hosted or embedded
                      basis in order to compete with HashiCorp's paid version(s) of the Licensed Work.
Change Date:          Four years from the date the Licensed Work is published.
Change License:       MPL 2.0

Terms

The Licensor hereby grants you the right to copy, modify, create derivative works, redistribute, and
make non-production use of the Licensed Work. The Licensor may make an Additional Use Grant, above,
permitting limited production use.
`

func TestIdentify(t *testing.T) {
	for _, name := range []string{"Apache-2.0", "GPL-3.0", "ISC", "MIT", "MPL-2.0", "Unlicense"} {
		if ids, err := identify([]byte("Copyright (c) 2020 Example\n\n"+text(t, name)), mostWords); err != nil || !slices.Equal(ids, []string{name}) {
			t.Errorf("%s is %v, %v", name, ids, err)
		}
	}
	both := text(t, "MIT") + "\n\n" + text(t, "Apache-2.0")
	if ids, err := identify([]byte(both), mostWords); err != nil || !slices.Equal(ids, []string{"Apache-2.0", "MIT"}) {
		t.Errorf("two licenses are %v, %v", ids, err)
	}
	for name, refused := range map[string]struct{ text, words string }{
		"AGPL":            {text(t, "AGPL-3.0"), "AGPL-3.0"},
		"an AGPL notice":  {text(t, "AGPL-3.0-Header"), "AGPL-3.0"},
		"SSPL":            {text(t, "SSPL-1.0"), "SSPL-1.0"},
		"Commons Clause":  {text(t, "CommonsClause") + text(t, "Apache-2.0"), "CommonsClause"},
		"BUSL":            {businessSource, "MariaDB Corporation Ab"},
		"MIT, then BUSL":  {text(t, "MIT") + businessSource, "want one of"},
		"MPL, then BUSL":  {text(t, "MPL-2.0") + businessSource, "besides the license"},
		"BUSL, then GPL":  {businessSource + text(t, "GPL-3.0"), "besides the license"},
		"Apache, limited": {text(t, "Apache-2.0") + "\nThis software may not be used for any commercial purpose.\n", "commercial"},
		"GPL, and more":   {text(t, "GPL-2.0") + strings.Repeat("You also agree to what we wrote. ", 20), "140 words"},
		"its SPDX line":   {"SPDX-License-Identifier: BUSL-1.1\n", "BUSL-1.1"},
		"no license":      {"All rights reserved.\n", "All rights reserved"},
		"an empty file":   {"", "want one of"},
		"AGPL beside MIT": {text(t, "MIT") + "\n\n" + text(t, "AGPL-3.0"), "AGPL-3.0"},
	} {
		if ids, err := identify([]byte(refused.text), mostWords); err == nil || !strings.Contains(err.Error(), refused.words) {
			t.Errorf("%s is %v, %v, want an error with %q", name, ids, err, refused.words)
		}
	}
}

// TestLicenses: the license files of the packages that are used count, and of their
// parents in the module.
func TestLicenses(t *testing.T) {
	mit, mpl := text(t, "MIT"), text(t, "MPL-2.0")
	for name, test := range map[string]struct {
		files map[string]string
		want  []string
		words string
	}{
		"one file":                       {map[string]string{"LICENSE": mit}, []string{"MIT"}, ""},
		"another name":                   {map[string]string{"COPYING.txt": mit}, []string{"MIT"}, ""},
		"one of a package":               {map[string]string{"LICENSE": mit, "used/deep/LICENSE": mpl}, []string{"MIT", "MPL-2.0"}, ""},
		"of a package alone":             {map[string]string{"used/LICENSE-MIT": mit}, []string{"MIT"}, ""},
		"none":                           {map[string]string{"README.md": mit, "used/license.go": mit}, nil, "has no license file"},
		"BUSL":                           {map[string]string{"LICENSE": businessSource}, nil, "LICENSE is to"},
		"BUSL of a package":              {map[string]string{"LICENSE": mit, "used/LICENSE": businessSource}, nil, "used/LICENSE is to"},
		"BUSL of a package, not used":    {map[string]string{"LICENSE": mit, "other/LICENSE": businessSource}, []string{"MIT"}, ""},
		"BUSL above the module":          {map[string]string{"LICENSE": mit, "../LICENSE": businessSource}, []string{"MIT"}, ""},
		"BUSL of a source file":          {map[string]string{"LICENSE": mit, "used/deep/a.go": "// Copyright\n// SPDX-License-Identifier: BUSL-1.1\n\npackage deep\n"}, nil, "used/deep/a.go has the license BUSL-1.1"},
		"AGPL of a C file":               {map[string]string{"LICENSE": mit, "used/deep/a.c": "/* SPDX-License-Identifier: MIT AND AGPL-3.0-only */\n"}, nil, "MIT AND AGPL-3.0-only"},
		"a choice for a source file":     {map[string]string{"LICENSE": mit, "used/deep/a.h": "/*\n * SPDX-License-Identifier: (BUSL-1.1 OR GPL-2.0-or-later)\n */\n"}, []string{"MIT"}, ""},
		"BUSL of a test, and in a text":  {map[string]string{"LICENSE": mit, "used/deep/a_test.go": "// SPDX-License-Identifier: BUSL-1.1\n", "used/deep/a.go": "package deep\n\nconst text = `\n// SPDX-License-Identifier: BUSL-1.1`\n"}, []string{"MIT"}, ""},
		"of the documents, another word": {map[string]string{"LICENSE": mit, "LICENSE.docs": businessSource}, []string{"MIT"}, ""},
	} {
		root := filepath.Join(t.TempDir(), "m@v1.0.0")
		for path, content := range test.files {
			path = filepath.Join(root, path)
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		deep := filepath.Join(root, "used/deep")
		if err := os.MkdirAll(deep, 0o755); err != nil {
			t.Fatal(err)
		}
		m := &Module{Path: "example.com/m", Version: "v1.0.0", root: root, dirs: []string{deep}}
		ids, err := m.Licenses()
		if test.words == "" && (err != nil || !slices.Equal(ids, test.want)) {
			t.Errorf("%s: %v, %v, want %v", name, ids, err, test.want)
		}
		if test.words != "" && (err == nil || !strings.Contains(err.Error(), test.words) || !strings.Contains(err.Error(), m.String())) {
			t.Errorf("%s: %v, %v, want an error with %q", name, ids, err, test.words)
		}
	}
}
