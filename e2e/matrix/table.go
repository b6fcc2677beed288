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

// table has a column for each tested version of a program.
type table struct {
	title string
	// prefix is that of the names of the results' files, PREFIX-VERSION.json, and of the
	// properties.
	prefix string
	rows   []row
}

// row is a property that tests measure.
type row struct{ property, text string }

var nomadTable = table{"Nomad", "nomad", []row{
	{"main-network", "`mode = \"cni/NAME\"`: main network, published ports"},
	{"arguments", "networks by CNI arguments of the job"},
	{"job-networks", "networks by blocks and meta of the job, with the agent"},
	{"update", "a change of the arguments replaces the allocations"},
	{"identity", "rules on `namespaces` permit a namespace"},
	{"restart", "networks remain when the client is stopped or killed, and restarts"},
	{"check", "a client that restarts calls CHECK, and repairs a network"},
	{"reboot", "networks are attached again after a reboot"},
	{"connect", "Consul Connect in the mode `cni/NAME`"},
	{"agent-job", "the agent as a job, with its workload identity"},
	{"tls", "the agent with a client that requires certificates"},
	{"driver", "task driver: modes `bridge` and `cni/NAME`, drivers exec and raw_exec"},
	{"driver-docker", "task driver: Docker"},
	{"driver-restart", "task driver: client or driver killed"},
	{"driver-reboot", "task driver: networks are attached again after a reboot"},
	{"driver-scheduling", "task driver: constraints by network"},
}}

var pluginTable = table{"CNI plugins", "cni", []row{
	{"check", "Nomad calls CHECK when its client restarts"},
	{"check-ports", "CHECK of published ports of IPv6 addresses"},
	{"inner-master", "`linkInContainer` of macvlan, ipvlan and vlan"},
	{"nftables", "backend nftables of portmap, bridge and ptp"},
	{"version", "`cniVersion` 1.1.0"},
}}

// render returns the table, with the results of a directory.
func (t table) render(dir string) (string, error) {
	columns, err := t.columns(dir)
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
	line(t.title, func(c column) string { return c.version.String() })
	line("---", func(column) string { return "---" })
	for _, r := range t.rows {
		line(r.text, func(c column) string { return cmp.Or(c.result.properties[t.prefix+"."+r.property], "not run") })
	}
	line("tests", func(c column) string { return c.result.String() })
	return b.String(), nil
}

// column is a version with its results.
type column struct {
	version nomad.Version
	result  *result
}

// columns reads the files of the table, in the order of their versions.
func (t table) columns(dir string) ([]column, error) {
	files, err := filepath.Glob(filepath.Join(dir, t.prefix+"-*.json"))
	if err != nil {
		return nil, err
	}
	var columns []column
	for _, file := range files {
		name := strings.TrimSuffix(strings.TrimPrefix(filepath.Base(file), t.prefix+"-"), ".json")
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
