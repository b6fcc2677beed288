// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package strictjson

import "testing"

// TestDecode: a text is one value with known keys.
func TestDecode(t *testing.T) {
	for text, want := range map[string]string{
		`{"a": 1}`:          "",
		" {\"a\": 1}\n":     "",
		`{"b": 1}`:          `body: json: unknown field "b"`,
		`{"a": 1} {"a": 2}`: "body: want one JSON value and nothing after it",
		`{"a": 1}}`:         "body: want one JSON value and nothing after it",
		"{\"a\": 1\n,}":     "body:2:2: invalid JSON: invalid character '}' looking for beginning of object key string",
		`{"a": "1"}`:        "body:1:9: a is a JSON string, want number",
		"":                  "body:1:1: invalid JSON: the text ends before it is complete: a bracket, a brace or a quote is missing",
	} {
		var into struct {
			A int `json:"a"`
		}
		err := Text{Path: "body", Line: 1, Data: []byte(text)}.Decode(&into)
		got := ""
		if err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
}
