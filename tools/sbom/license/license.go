// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Package license tells the licenses of the modules that a build uses, from their
// license files.
package license

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/google/licensecheck"
)

// open are the SPDX identifiers of open-source licenses. A license that is not here is
// refused, until a maintainer has read it and added it.
var open = []string{
	"0BSD", "Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "GPL-2.0", "GPL-3.0", "GPL-3.0-or-later", "ISC", "LGPL-3.0", "MIT", "MPL-2.0",
	"OFL-1.1", "Unicode-DFS-2016", "Unlicense",
}

// patents permit more than the license beside them.
const patents = "GooglePatentsFile"

// read are the licenses of files that are not the text of one alone, as a maintainer has
// read them.
var read = map[string]string{
	"github.com/alecthomas/go-check-sumtype@v0.5.1-0.20260828200218-ae6904d28606/COPYING": "MIT",        // or the Unlicense; the texts are beside it
	"github.com/fsouza/go-dockerclient@v1.7.9/DOCKER-LICENSE":                             "Apache-2.0", // the title, and where the text is
	"github.com/hashicorp/vic@v1.5.1-0.20190403131502-bbfe86ec9443/LICENSE":               "Apache-2.0", // with the notices of what an appliance has installed
	"github.com/tj/go-spin@v1.1.0/Readme.md":                                              "MIT",        // it says so, and there is no other file
}

// longer are files that have more than mostWords besides the license, as a maintainer has read them.
var longer = []string{
	"github.com/OpenPeeDeeP/depguard/v2@v2.2.1/LICENSE",             // how to apply the GPL
	"github.com/cyphar/filepath-securejoin@v0.6.0/COPYING.md",       // which file has which license
	"github.com/xen0n/gosmopolitan@v1.3.0/LICENSE",                  // how to apply the GPL
	"kernel.org/pub/linux/libs/security/libcap/psx@v1.2.66/License", // or the BSD license, in other words than usual
}

// leastCoverage is the percentage of a file that has to be the text of licenses. The
// rest is names and years, or conditions that no license has.
const leastCoverage = 75

// mostWords is the number of words that a file may have besides the text of licenses, names and years. More of them
// are conditions, however long the license before them is.
const mostWords = 100

// closed matches words of conditions that an open-source license does not have.
var closed = regexp.MustCompile(`(?i)\b(business source|(non-?)?commercial|compet\w*|non-?production)\b`)

// besides returns what a file has besides the text of licenses.
func besides(text []byte, found []licensecheck.Match) string {
	var rest strings.Builder
	at := 0
	for _, m := range found {
		rest.Write(text[at:max(at, m.Start)])
		rest.WriteByte('\n')
		at = max(at, m.End)
	}
	rest.Write(text[at:])
	return rest.String()
}

// identify returns the SPDX identifiers of the licenses in a file. It fails for a
// license that is not open source, for a text that is none, and for one with more words besides than mostWords.
func identify(text []byte, mostWords int) ([]string, error) {
	found := licensecheck.Scan(text)
	var ids []string
	for _, m := range found.Match {
		if m.ID == patents {
			continue
		}
		if !slices.Contains(open, m.ID) {
			return nil, fmt.Errorf("has the license %s: want one of %s", m.ID, strings.Join(open, ", "))
		}
		ids = append(ids, m.ID)
	}
	if found.Percent < leastCoverage {
		line, _, _ := strings.Cut(strings.TrimSpace(string(text)), "\n")
		return nil, fmt.Errorf("is to %.0f%% the text of a license that is known, and begins with %q: want one of %s", found.Percent, line, strings.Join(open, ", "))
	}
	rest := besides(text, found.Match)
	if words := closed.FindString(rest); words != "" {
		return nil, fmt.Errorf("has conditions besides the license %v, with the words %q", ids, words)
	}
	if count := len(strings.Fields(rest)); count > mostWords {
		return nil, fmt.Errorf("has %d words besides the license %v, want at most %d", count, ids, mostWords)
	}
	slices.Sort(ids)
	return slices.Compact(ids), nil
}

// names are those of license files: LICENSE, COPYING.md, LICENSE-MIT, UNLICENSE.
var names = regexp.MustCompile(`(?i)^([a-z0-9]+-)?(un)?(licen[cs]e|copying)([-_.].*)?$`)

// isFile reports whether a name is that of a license of programs: not of source code
// about licenses, and not of documentation.
func isFile(name string) bool {
	return names.MatchString(name) && !slices.Contains([]string{".go", ".docs"}, strings.ToLower(filepath.Ext(name)))
}

// Licenses returns the SPDX identifiers of a module's licenses: of the license files in
// the directories of its packages that are used, and in those above, up to its root. It
// fails if one is not open source, or if there is none, and for a source file whose header
// has another one.
func (m *Module) Licenses() ([]string, error) {
	var ids []string
	var all error
	for _, dir := range m.withParents() {
		found, err := m.in(dir)
		ids, all = append(ids, found...), errors.Join(all, err)
	}
	if all == nil && len(ids) == 0 {
		all = fmt.Errorf("%s: %s has no license file", m, m.root)
	}
	slices.Sort(ids)
	return slices.Compact(ids), errors.Join(all, m.headers())
}

// in returns the licenses of the files in one directory.
func (m *Module) in(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var ids []string
	for _, entry := range entries {
		path := filepath.Join(dir, entry.Name())
		if id, ok := read[m.String()+strings.TrimPrefix(path, m.root)]; ok {
			ids = append(ids, id)
			continue
		}
		if !entry.Type().IsRegular() || !isFile(entry.Name()) {
			continue
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		most := mostWords
		if slices.Contains(longer, m.String()+strings.TrimPrefix(path, m.root)) {
			most = len(text)
		}
		found, err := identify(text, most)
		if err != nil {
			return nil, fmt.Errorf("%s: %s %w", m, path, err)
		}
		ids = append(ids, found...)
	}
	return ids, nil
}

// withParents returns the directories of the packages, and those above up to the root.
func (m *Module) withParents() []string {
	seen := map[string]bool{}
	var all []string
	for _, dir := range append(m.dirs, m.root) {
		for ; !seen[dir] && (dir == m.root || strings.HasPrefix(dir, m.root+string(filepath.Separator))); dir = filepath.Dir(dir) {
			seen[dir] = true
			all = append(all, dir)
		}
	}
	slices.SortFunc(all, func(a, b string) int { return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b)) })
	return all
}
