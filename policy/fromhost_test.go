// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package policy

import (
	"strings"
	"testing"

	"github.com/allocnet/allocnet/internal/strictjson"
)

// TestFromHost: the key wants a level, since without one others reach what the host does not.
func TestFromHost(t *testing.T) {
	for text, want := range map[string]string{
		`{"isolation": "strict", "fromHost": false}`:  "isolation strict; not from the host",
		`{"isolation": "network", "fromHost": false}`: "isolation network; not from the host",
		`{"isolation": "strict", "fromHost": true}`:   "isolation strict",
		`{"fromHost": true}`:                          "unrestricted",
		`{"fromHost": false}`:                         `error: fromHost false: want isolation "network" or "strict", too`,
		`{"isolation": "none", "fromHost": false}`:    `error: fromHost false: want isolation`,
		`{"antispoof": true, "fromHost": false}`:      `error: fromHost false: want isolation`,
		`{"isolation": "strict", "fromHost": null}`:   `error: fromHost: null: want a value`,
		`{"isolation": "strict", "fromHost": "no"}`:   `error: fromHost`,
		`{"isolation": "strict", "fromhost": false}`:  `error: fromhost`,
	} {
		s, err := parse(strictjson.Text{Path: "f", Line: 1, Data: []byte(text)})
		got := s.Describe()
		if err != nil {
			got = "error: " + err.Error()
		}
		if want, isError := strings.CutPrefix(want, "error: "); isError && (err == nil || !strings.Contains(got, want)) || !isError && got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
}
