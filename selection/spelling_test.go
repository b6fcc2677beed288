// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package selection

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unicode"
)

// spellings returns a key with each of its letters, by itself, in each form that Unicode has of it.
func spellings(key string) []string {
	all := []string{strings.ToUpper(key), strings.ToLower(key)}
	for i, letter := range key {
		for other := unicode.SimpleFold(letter); other != letter; other = unicode.SimpleFold(other) {
			all = append(all, key[:i]+string(other)+key[i+1:])
		}
	}
	return slices.DeleteFunc(all, func(s string) bool { return s == key })
}

// objects returns the types of an element and of the objects in it, by how a selection has them.
func objects() map[string]reflect.Type {
	return map[string]reflect.Type{
		`[{%s}]`: reflect.TypeFor[Element](), `[{"name": "a", "bandwidth": {%s}}]`: reflect.TypeFor[Bandwidth](),
		`[{"name": "a", "portMappings": [{%s}]}]`: reflect.TypeFor[PortMapping](),
	}
}

// valueOf returns a JSON value of a type.
func valueOf(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Int, reflect.Uint64:
		return "2000"
	case reflect.String:
		return `""`
	}
	return "null"
}

// TestSpelledKeys: a key in another spelling, which encoding/json accepts for that of a field, is refused at all levels, by
// itself and beside the key.
func TestSpelledKeys(t *testing.T) {
	tried := 0
	for form, object := range objects() {
		for _, field := range reflect.VisibleFields(object) {
			key, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			value := valueOf(field.Type)
			if _, err := Parse(fmt.Sprintf(form, fmt.Sprintf(`%q: %s`, key, value))); err != nil && strings.Contains(err.Error(), "unknown key") {
				t.Errorf("%s of %s: %v", key, object, err)
			}
			for _, other := range spellings(key) {
				one, two := fmt.Sprintf("%q: %s", other, value), fmt.Sprintf("%q: %s", key, value)
				for _, members := range []string{one, one + ", " + two, two + ", " + one} {
					text := fmt.Sprintf(form, members)
					tried++
					var refused *Error
					if _, err := Parse(text); !errors.As(err, &refused) || refused.Value != other || !strings.Contains(refused.Reason, "unknown key") {
						t.Errorf("%s: error %v, want that the key %q is unknown", text, err, other)
					}
				}
			}
		}
	}
	if tried < 300 {
		t.Errorf("%d texts were tried", tried)
	}
}

// TestSpelledArguments: what plugins read as an argument that rules apply to is one, however it is spelled. One that
// is there in two spellings is refused.
func TestSpelledArguments(t *testing.T) {
	for key, value := range map[string]any{
		"ip": "10.0.0.1", "ips": []any{"10.0.0.1"}, "mac": "02:00:00:00:00:01", "guid": "02:00:00:00:00:00:00:01",
		"infinibandGUID": "02:00:00:00:00:00:00:01", "mtu": 9000, "portMappings": []any{},
	} {
		for _, other := range append(spellings(key), key) {
			e := Element{Name: "a", CNIArgs: map[string]any{other: value}}
			c, err := Choose(e, nil)
			if refused := validate(e, "networks[0]"); refused == nil && (err != nil || len(c.Addresses)+len(c.Hardware) != 1) {
				t.Errorf("%q: chooses %v, %v, and is not refused", other, c, err)
			}
			for _, text := range []string{`{%q: "", %q: ""}`, `{"x": {%q: "", %q: ""}}`, `{"x": [1, [{%q: 1, %q: 2}]]}`} {
				text = fmt.Sprintf(`[{"name": "a", "cni-args": `+text+`}]`, key, other)
				if _, err := Parse(text); err == nil {
					t.Errorf("%s is accepted", text)
				}
			}
		}
	}
}

// TestSpellings: those are the spellings that encoding/json accepts.
func TestSpellings(t *testing.T) {
	for _, spelling := range spellings("ips") {
		var args struct {
			IPs []string `json:"ips"`
		}
		if err := json.Unmarshal(fmt.Appendf(nil, `{%q: ["x"]}`, spelling), &args); err != nil || len(args.IPs) != 1 {
			t.Errorf("%q: %v, %v", spelling, args, err)
		}
	}
	if !slices.Contains(spellings("ips"), "ip\u017f") {
		t.Error("the long s is not among them")
	}
}
