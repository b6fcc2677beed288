// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package files

import (
	"errors"
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
