// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package license

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// mistaken are files whose header has not the license of the release that they are in, as a maintainer has read it.
var mistaken = []string{
	// Ported back from 1.7, which has another license: https://github.com/hashicorp/nomad/pull/19203 says that 1.6.2 has the MPL.
	"github.com/hashicorp/nomad@v1.6.2/helper/backoff.go",
}

// headerSize is how much of a source file is read for its header.
const headerSize = 4 << 10

// header matches the license that a source file states of itself, in a comment.
var header = regexp.MustCompile(`(?m)^(?://|#|/?\*|;)[ \t]*SPDX-License-Identifier:[ \t]*([^*\r\n]+)`)

// code matches where a Go file's header ends.
var code = regexp.MustCompile(`(?m)^package `)

// headers fails for a source file of a package that is used whose header has a license that is not open source, whatever
// the license file above it is.
func (m *Module) headers() error {
	var all error
	for _, dir := range m.dirs {
		entries, err := os.ReadDir(dir)
		if err != nil {
			return err
		}
		for _, entry := range entries {
			path := filepath.Join(dir, entry.Name())
			if !entry.Type().IsRegular() || !isSource(entry.Name()) || slices.Contains(mistaken, m.String()+strings.TrimPrefix(path, m.root)) {
				continue
			}
			if expression, err := closedHeader(path); err != nil {
				return err
			} else if expression != "" {
				all = errors.Join(all, fmt.Errorf("%s: %s has the license %s in its header: want one of %s", m, path, expression, strings.Join(open, ", ")))
			}
		}
	}
	return all
}

// isSource reports whether a build may use a file.
func isSource(name string) bool {
	return slices.Contains([]string{".go", ".c", ".h", ".s", ".S"}, filepath.Ext(name)) && !strings.HasSuffix(name, "_test.go")
}

// closedHeader returns the license in a source file's header if it is not open source.
func closedHeader(path string) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer file.Close() //nolint:errcheck // read only
	text, err := io.ReadAll(io.LimitReader(file, headerSize))
	if err != nil {
		return "", err
	}
	if begin := code.FindIndex(text); begin != nil {
		text = text[:begin[0]]
	}
	for _, m := range header.FindAllSubmatch(text, -1) {
		if expression := strings.TrimSpace(string(m[1])); !isOpen(expression) {
			return expression, nil
		}
	}
	return "", nil
}

// isOpen reports whether an SPDX expression permits to choose open-source licenses only.
func isOpen(expression string) bool {
	expression = strings.NewReplacer("(", "", ")", "").Replace(expression)
	return slices.ContainsFunc(strings.Split(expression, " OR "), func(choice string) bool {
		return !slices.ContainsFunc(strings.Split(choice, " AND "), func(id string) bool {
			id, _, _ = strings.Cut(strings.TrimSpace(id), " WITH ")
			return !slices.Contains(open, strings.TrimSuffix(strings.TrimSuffix(id, "-only"), "-or-later")) && !slices.Contains(open, id)
		})
	})
}
