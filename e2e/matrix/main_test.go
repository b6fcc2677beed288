// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// results are those of two versions. In the second a test fails, and a package is not
// built.
var results = map[string]string{
	"cni-1.9.1.json": `{"Action":"start","Package":"p"}
{"Action":"attr","Package":"p","Test":"TestA/One","Key":"cni.version","Value":"yes"}
{"Action":"output","Package":"p","Test":"TestA/One","Output":"x\n"}
{"Action":"pass","Package":"p","Test":"TestA/One"}
{"Action":"pass","Package":"p","Test":"TestA/Two"}
{"Action":"pass","Package":"p","Test":"TestA"}
{"Action":"pass","Package":"p"}
`,
	"cni-1.1.1.json": `{"Action":"attr","Package":"p","Test":"TestA/One","Key":"cni.version","Value":"no"}
{"Action":"attr","Package":"p","Test":"TestA/Two","Key":"cni.nftables","Value":"no"}
{"Action":"fail","Package":"p","Test":"TestA/One"}
{"Action":"pass","Package":"p","Test":"TestA/Two"}
{"Action":"fail","Package":"p","Test":"TestA"}
{"Action":"fail","Package":"p","Test":"TestB"}
{"Action":"fail","Package":"p"}
{"Action":"fail","Package":"q"}
`,
}

func write(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestSection(t *testing.T) {
	document := filepath.Join(write(t, map[string]string{"a.md": "# A\n" + begin + "old\n" + end + "after\n"}), "a.md")
	if err := run([]string{document, write(t, results)}); err != nil {
		t.Fatal(err)
	}
	written, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	text := string(written)
	for _, want := range []string{
		"# A\n" + begin + "\n| CNI plugins | 1.1.1 | 1.9.1 |\n| --- | --- | --- |\n", "\n" + end + "after\n",
		"| `cniVersion` 1.1.0 | **fails** | yes |\n",
		"| backend nftables of portmap, bridge and ptp | no | not run |\n",
		"| tests | 1 passed, 3 failed | 2 passed |\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("it lacks %q:\n%s", want, text)
		}
	}
	if strings.Contains(text, "old") {
		t.Errorf("the earlier section is there still:\n%s", text)
	}
}

func TestErrors(t *testing.T) {
	complete, empty := map[string]string{"a.md": begin + end}, map[string]string{"a.md": ""}
	for name, test := range map[string]struct {
		document, results map[string]string
		want              string
	}{
		"no section":   {empty, results, "the document lacks"},
		"no version":   {complete, map[string]string{"cni-new.json": ""}, `version "new"`},
		"no JSON":      {complete, map[string]string{"cni-1.1.1.json": "FAIL\n"}, "FAIL"},
		"no document":  {nil, results, "a.md"},
		"another file": {complete, map[string]string{"cni.json": "x"}, ""},
	} {
		err := run([]string{filepath.Join(write(t, test.document), "a.md"), write(t, test.results)})
		if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %q", name, err, test.want)
		}
	}
	if run(nil) == nil {
		t.Error("without arguments it has no error")
	}
}
