// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// checkout writes files, and returns their root.
func checkout(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for path, text := range files {
		path = filepath.Join(root, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

// build makes the site of a checkout, and returns its directory.
func build(t *testing.T, root string) string {
	t.Helper()
	out := filepath.Join(t.TempDir(), "site")
	if err := run(root, out); err != nil {
		t.Fatal(err)
	}
	return out
}

func load(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// example has each kind of what a page can have.
var example = map[string]string{
	"README.md":            "# Home\n[pages](docs/README.md#all-pages), [files](dist/conf), [license](LICENSE), [far](https://example.org/x.md)\n",
	"LICENSE":              "text\n",
	"dist/conf/a.conflist": "{}\n",
	"docs/README.md":       "# All pages\n\n- [a](a.md)\n- [home](../README.md)\n",
	"docs/a.svg":           "<svg/>\n",
	"docs/a.md": "# A `b`, and c\n\n![picture](a.svg)\n\n<!-- tested -->\n```sh\necho \"<b>\"\n```\n\n## Errors\n\n| message | action |\n| --- | --- |\n" +
		"| `port N/tcp ... is <in> use` (placement) | see [below](#the-end) |\n| `one`, `the \"other\"` | look at [all](README.md) |\n\n" +
		"| | x |\n| --- | --- |\n| 1 | 2 |\n\n## The end\n\n## Twice\n\n## Twice\n",
}

// TestPages: links lead to pages, or to the files in the repository; what is quoted is escaped; marks are not shown.
func TestPages(t *testing.T) {
	out := build(t, checkout(t, example))
	for file, want := range map[string][]string{
		"index.html":      {`href="docs/index.html#all-pages"`, `href="` + repository + `/tree/main/dist/conf"`, `href="` + repository + `/blob/main/LICENSE"`, `href="https://example.org/x.md"`, "<title>Home</title>"},
		"docs/index.html": {`href="../docs/a.html"`, `href="../index.html"`, `href="../style.css"`},
		"docs/a.html":     {`id="a-b-and-c"`, `id="twice"`, `id="twice-1"`, `src="a.svg"`, "echo &quot;&lt;b&gt;&quot;", `<td></td>`, `href="#the-end">The end</a>`, "<title>A b, and c · allocnet</title>"},
		"docs/a.svg":      {"<svg/>"},
		"docs/message-errors-port-ntcp-is-in-use.html": {"<code>port N/tcp ... is &lt;in&gt; use</code>", `see <a href="../docs/a.html#the-end">below</a>`, "<dt>action</dt>"},
		"docs/message-errors-the-other.html":           {"the &#34;other&#34;", `href="../docs/a.html#errors"`},
		"messages.html":                                {`href="docs/message-errors-one.html"`, `href="docs/message-errors-the-other.html"`},
		"sections.js":                                  {`"title":"Errors","address":"docs/a.html#errors"`, `"page":"Messages","title":"one","address":"docs/message-errors-one.html","text":"look at all `},
		"search.html":                                  {`src="sections.js"`},
	} {
		text := load(t, filepath.Join(out, file))
		for _, part := range want {
			if !strings.Contains(text, part) {
				t.Errorf("%s lacks %s:\n%s", file, part, text)
			}
		}
		if strings.Contains(text, "tested -->") || strings.Contains(text, "raw HTML omitted") {
			t.Errorf("%s shows a mark:\n%s", file, text)
		}
	}
}

// TestBrokenLinks: each is named with its page, and no site is made.
func TestBrokenLinks(t *testing.T) {
	files := map[string]string{"README.md": "# Home\n[1](docs/b.md) [2](docs/a.md#none) [3](#home) [4](docs/a.md#a) ![5](none.svg)\n", "docs/a.md": "# A\n[6](../README.md#b)\n"}
	out := filepath.Join(t.TempDir(), "site")
	err := run(checkout(t, files), out)
	if err == nil {
		t.Fatal("no error")
	}
	want := "README.md: the link docs/b.md leads nowhere\nREADME.md: the link docs/a.md#none leads nowhere\nREADME.md: the link none.svg leads nowhere\ndocs/a.md: the link ../README.md#b leads nowhere"
	if err.Error() != want {
		t.Errorf("the error is\n%v\nwant\n%s", err, want)
	}
	if _, err := os.Stat(out); err == nil {
		t.Error("there is a site")
	}
}

// TestNoCheckout: another directory is refused.
func TestNoCheckout(t *testing.T) {
	if err := run(t.TempDir(), filepath.Join(t.TempDir(), "site")); err == nil || !strings.Contains(err.Error(), "want the root of a checkout") {
		t.Errorf("the error is %v", err)
	}
}

var (
	reference = regexp.MustCompile(` (?:href|src|action)="([^"]*)"`)
	named     = regexp.MustCompile(` id="([^"]*)"`)
)

// TestSite: in the site of this repository each reference leads to a file, and to a part of it; each message of the tables has a
// page, and each page is in the search.
func TestSite(t *testing.T) {
	out := build(t, "../..")
	files := map[string]string{}
	err := filepath.WalkDir(out, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.Type().IsRegular() {
			files[path] = load(t, path)
		}
		return err
	})
	if err != nil || len(files) < 70 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for path, text := range files {
		if filepath.Ext(path) != ".html" {
			continue
		}
		for _, m := range reference.FindAllStringSubmatch(text, -1) {
			if reason := dangling(files, path, m[1]); reason != "" {
				t.Errorf("%s: %s: %s", path, m[1], reason)
			}
		}
	}
	sections := files[filepath.Join(out, "sections.js")]
	for _, part := range []string{`"title":"host port N/tcp ... is in use"`, `"address":"docs/uninstall.html#uninstall"`, `"address":"docs/symptoms.html#traffic"`} {
		if !strings.Contains(sections, part) {
			t.Errorf("the search does not have %s", part)
		}
	}
}

// dangling tells why a reference of a page leads nowhere.
func dangling(files map[string]string, path, link string) string {
	u, err := url.Parse(strings.ReplaceAll(link, "&amp;", "&"))
	if err != nil {
		return err.Error()
	}
	if u.Scheme != "" {
		return ""
	}
	if u.Path != "" {
		path = filepath.Join(filepath.Dir(path), u.Path)
	}
	text, found := files[path]
	if !found {
		return "no such file"
	}
	if u.Fragment != "" && !slices.ContainsFunc(named.FindAllStringSubmatch(text, -1), func(m []string) bool { return m[1] == u.Fragment }) {
		return "no such part"
	}
	return ""
}
