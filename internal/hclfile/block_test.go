// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package hclfile

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/gohcl"
)

// settings are fields of all types that Decode sets.
type settings struct {
	Name  string         `hcl:"name,optional"`
	On    bool           `hcl:"on,optional"`
	Limit hcl.Expression `hcl:"limit,optional"`
	Paths []string       `hcl:"paths,optional"`
	Sub   *struct {
		Name  string    `hcl:"name,optional"`
		Where hcl.Range `hcl:",def_range"`
	} `hcl:"sub,block"`
}

// TestDecode: the fields, and the errors, are those of gohcl.
func TestDecode(t *testing.T) {
	for _, text := range []string{
		"", "other {\n x = 1\n}\nx = 1", "block {}", `block {
 name = "a"
 on = true
 limit = 5
}`, "block {\n name = 7\n on = \"true\"\n}",
		"block {}\nblock {}", "block {\n nam = \"a\"\n}", "block {\n on = \"perhaps\"\n}", "block {\n name = [1]\n}", "block {\n name = other\n}",
		"block {\n sub {}\n}", "block \"label\" {}",
		"block {\n sub {\n  name = \"b\"\n }\n paths = [\"a\", 7]\n}", "block {\n sub {}\n sub {}\n}", "block {\n sub {\n  name = [1]\n }\n}",
		"block {\n sub \"label\" {}\n}", "block {\n sub = 1\n}", "block {\n paths = \"a\"\n}", "block {\n other {}\n}",
	} {
		path := filepath.Join(t.TempDir(), "a.hcl")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		body, err := LoadFile(path)
		if err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		var v Values
		got, want := decoded(&v, body), reference(t, body)
		if got := summary(v.faults); got != want.faults {
			t.Errorf("%q: errors\n%s, want\n%s", text, got, want.faults)
		}
		if want.faults == "" && (got == nil) != (want.block == nil) {
			t.Errorf("%q: block %v, want %v", text, got, want.block)
		}
		if want.faults != "" || got == nil {
			continue
		}
		limit, _ := Read[int64](&v, got.Limit)
		wanted, _ := Read[int64](&v, want.block.Limit)
		got.Limit, want.block.Limit = nil, nil
		if !reflect.DeepEqual(got, want.block) || limit != wanted {
			t.Errorf("%q: %+v with the limit %d, want %+v with %d", text, got, limit, want.block, wanted)
		}
	}
}

func decoded(v *Values, body hcl.Body) *settings {
	block := v.Block(body, "block")
	if block == nil {
		return nil
	}
	s := &settings{}
	v.Decode(block, s)
	return s
}

// result is what gohcl makes of a file.
type result struct {
	block  *settings
	faults string
}

func reference(t *testing.T, body hcl.Body) result {
	t.Helper()
	var f struct {
		Block *settings `hcl:"block,block"`
		Rest  hcl.Body  `hcl:",remain"`
	}
	faults := gohcl.DecodeBody(body, nil, &f)
	return result{f.Block, summary(faults)}
}

// summary has the lines and the summaries of errors.
func summary(faults hcl.Diagnostics) string {
	var lines []string
	for _, f := range faults {
		lines = append(lines, f.Subject.String()+" "+f.Summary+" "+f.Detail)
	}
	return strings.Join(lines, "\n")
}
