// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package config

import (
	"reflect"
	"strings"
	"testing"

	"github.com/allocnet/allocnet/docs"
	"github.com/allocnet/allocnet/internal/manpage"
)

// TestDocumented: docs/agent.md, from which allocnet-agent.hcl(5) is made, has a row for
// each setting of each block.
func TestDocumented(t *testing.T) {
	requireDocumented(t, "Settings", reflect.TypeFor[file]())
}

func requireDocumented(t *testing.T, title string, block reflect.Type) {
	t.Helper()
	section, err := manpage.Extract(docs.Agent, title)
	if err != nil {
		t.Errorf("docs/agent.md: %v, want it with a table of the settings", err)
		return
	}
	for field := range block.Fields() {
		name, kind, _ := strings.Cut(field.Tag.Get("hcl"), ",")
		switch kind {
		case "block":
			requireDocumented(t, "Block "+name, field.Type.Elem())
		case "optional":
			if !hasRow(section, name) {
				t.Errorf("docs/agent.md, section %q: no row for the setting %q", title, name)
			}
		}
	}
}

// hasRow tells whether a setting is in the first column of a table.
func hasRow(section, name string) bool {
	for line := range strings.Lines(section) {
		if strings.HasPrefix(line, "| ") && strings.Contains(strings.SplitN(line, "|", 3)[1], "`"+name+"`") {
			return true
		}
	}
	return false
}
