// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package strictjson

import (
	"encoding/json"
	"testing"
)

// TestLocated: errors say where they are, and what would be right.
func TestLocated(t *testing.T) {
	const ends = "invalid JSON: the text ends before it is complete: a bracket, a brace or a quote is missing"
	for text, want := range map[string]string{
		"{":                          "f:1:1: " + ends,
		"":                           "f:1:1: " + ends,
		"{\n  \"plain\": 1,\n}":      "f:3:1: invalid JSON: invalid character '}' looking for beginning of object key string",
		"{\n  \"plain\": \"x\"\n}":   "f:2:14: Plain is a JSON string, want number",
		"{\"list\": {}}":             "f:1:10: list is a JSON object, want array",
		"{\"name\": \"a\" \"list\"}": "f:1:14: invalid JSON: invalid character '\"' after object key:value pair",
	} {
		err := json.Unmarshal([]byte(text), &outer{})
		if err == nil {
			t.Errorf("%s is accepted", text)
		} else if got := (Text{Path: "f", Line: 1, Data: []byte(text)}).Located(err).Error(); got != want {
			t.Errorf("%q\ngot  %s\nwant %s", text, got, want)
		}
	}
}
