// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package strictjson

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// inner and outer have the forms that encoding/json decodes.
type inner struct {
	Deep *struct {
		Last int `json:"last"`
	} `json:"deep"`
}

type outer struct {
	inner
	Name  string           `json:"name"`
	List  []*inner         `json:"list"`
	Map   map[string]inner `json:"map"`
	Raw   json.RawMessage  `json:"raw"`
	Plain int
	Not   int `json:"-"`
}

func TestCheck(t *testing.T) {
	for text, want := range map[string]string{
		`{}`: "",
		`{"name": "x", "list": [{"deep": {"last": 1}}], "map": {"any": {"deep": null}}, "raw": {"any": 1}, "plain": 1, "deep": {"last": 2}}`: "",
		`{"NAME": "x"}`: "",
		"{\n\"nam\": 1,\n\n\"none\": 2, \"Not\": 3}":            "nam:2 none:4 Not:4",
		"{\"list\": [{}, {\n\"deep\": {\"lost\":\n1}}]}":        "list[1].deep.lost:2",
		"{\"map\": {\"a\": {\"x\": 1}, \"A\": {}, \"a\": {}}}":  "map.a.x:1 map.a:1",
		"{\"raw\": {\"a\": 1,\n\"a\": [{\"b\": 1, \"b\": 2}]}}": "raw.a:2 raw.a[0].b:2",
		"{\"name\": 1,\n\"Name\": 2}":                           "Name:2",
		"{\"name\": \"a\\n\", \"\\u006eame\": 2}":               "name:1",
	} {
		found, err := Text{Path: "f", Line: 1, Data: json.RawMessage(text)}.Check(Form{Of: "it", Into: &outer{}})
		if err != nil {
			t.Errorf("%s: %v", text, err)
		}
		var got []string
		for _, m := range found {
			got = append(got, strings.TrimPrefix(fmt.Sprintf("%s.%s:%d", m.Of, m.Key, m.Line), "it."))
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s\ngot  %v\nwant %s", text, got, want)
		}
	}
	for n, want := range map[int]bool{maxDepth: true, maxDepth + 1: false} {
		text := `{"raw": ` + strings.Repeat("[", n) + strings.Repeat("]", n) + "}"
		if _, err := (Text{Path: "f", Line: 1, Data: json.RawMessage(text)}).Check(Form{Of: "it", Into: &outer{}}); (err == nil) != want {
			t.Errorf("%d arrays within each other: %v", n, err)
		}
	}
	for _, text := range []string{"", "null", "[]", "1", "{", `{"a"`, `{"a": }`, `{"a": 1,}`, `{} {}`, `{}x`} {
		if _, err := (Text{Path: "f", Line: 1, Data: json.RawMessage(text)}).Check(Form{Of: "it", Into: &outer{}}); err == nil {
			t.Errorf("%q is accepted", text)
		}
	}
}

func TestSimilar(t *testing.T) {
	known := []string{"isGateway", "isDefaultGateway", "ipMasq", "mtu", "dns"}
	for key, want := range map[string]string{
		"isGatway": "isGateway", "isgateway": "isGateway", "isDefaultGatewy": "isDefaultGateway", "ipmaks": "ipMasq", "mut": "", "mtuu": "", "x": "", "": "", "gateway": "isGateway",
	} {
		if got := Similar(key, known); got != want {
			t.Errorf("%q: got %q, want %q", key, got, want)
		}
	}
}
