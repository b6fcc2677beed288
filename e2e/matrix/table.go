// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/allocnet/allocnet/nomad"
)

// row is a property that tests measure.
type row struct{ property, text string }

var rows = []row{
	{"check-ports", "CHECK of published ports of IPv6 addresses"},
	{"inner-master", "`linkInContainer` of macvlan, ipvlan and vlan"},
	{"nftables", "backend nftables of portmap, bridge and ptp"},
	{"version", "`cniVersion` 1.1.0"},
}

// prefix is that of the names of the results' files, PREFIX-VERSION.json, and of the
// properties.
const prefix = "cni"

// render returns the table, which has a column for each version of the results in a directory.
func render(dir string) (string, error) {
	columns, err := readColumns(dir)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	line := func(first string, cell func(column) string) {
		b.WriteString("| " + first + " |")
		for _, c := range columns {
			b.WriteString(" " + cell(c) + " |")
		}
		b.WriteString("\n")
	}
	line("CNI plugins", func(c column) string { return c.version.String() })
	line("---", func(column) string { return "---" })
	for _, r := range rows {
		line(r.text, func(c column) string { return cmp.Or(c.result.properties[prefix+"."+r.property], "not run") })
	}
	line("tests", func(c column) string { return c.result.String() })
	return b.String(), nil
}

// column is a version with its results.
type column struct {
	version nomad.Version
	result  *result
}

// readColumns reads the files of a directory, in the order of their versions.
func readColumns(dir string) ([]column, error) {
	files, err := filepath.Glob(filepath.Join(dir, prefix+"-*.json"))
	if err != nil {
		return nil, err
	}
	var columns []column
	for _, file := range files {
		name := strings.TrimSuffix(strings.TrimPrefix(filepath.Base(file), prefix+"-"), ".json")
		version, err := nomad.ParseVersion(name)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		result, err := readResult(file)
		if err != nil {
			return nil, err
		}
		columns = append(columns, column{version, result})
	}
	slices.SortFunc(columns, func(a, b column) int { return slices.Compare(a.version[:], b.version[:]) })
	return columns, nil
}
