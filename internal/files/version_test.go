// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package files

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestDecodeVersion: a later version is not taken for damage, nor for a file without what it has.
func TestDecodeVersion(t *testing.T) {
	for text, want := range map[string]struct {
		isLater, isDamaged bool
	}{
		`{"index":7}`:                           {},
		`{"version":1,"index":7}`:               {},
		`{"version":2,"index":7}`:               {isLater: true},
		`{"version":2,"index":{"a":[]},"x":{}}`: {isLater: true},
		`{"version":"2","index":7}`:             {isDamaged: true},
		`{"version":2,"index":7`:                {isDamaged: true},
		"":                                      {isDamaged: true},
		"[]":                                    {isDamaged: true},
	} {
		var v struct {
			Version int `json:"version"`
			Index   int `json:"index"`
		}
		err := DecodeVersion([]byte(text), 1, &v)
		if isLater := errors.Is(err, ErrLater); isLater != want.isLater || (err != nil && !isLater) != want.isDamaged || err == nil && v.Index != 7 {
			t.Errorf("%s: %+v, %v", text, v, err)
		}
	}
}

// TestReadVersion: a file that is missing says nothing, and one that is damaged, or of a later version, is told apart.
func TestReadVersion(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	var v struct{ Version, Index int }
	if err := ReadVersion(path, 1, &v); err != nil {
		t.Errorf("missing: %v", err)
	}
	for text, want := range map[string]error{`{"version":1,"index":7}`: nil, `{"version":2}`: ErrLater, `{"ind`: ErrDamaged} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		err := ReadVersion(path, 1, &v)
		if !errors.Is(err, want) || want != nil && !strings.Contains(err.Error(), path) || want == nil && v.Index != 7 {
			t.Errorf("%s: %v, %+v", text, err, v)
		}
	}
	if err := errors.Join(os.Remove(path), os.Mkdir(path, 0o700)); err != nil {
		t.Fatal(err)
	}
	if err := ReadVersion(path, 1, &v); !errors.Is(err, ErrNotRegular) {
		t.Errorf("a directory: %v", err)
	}
}
