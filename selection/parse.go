// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package selection

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

// maxInput bounds a selection. 64 rich elements have less than half of this.
const maxInput = 64 << 10

// Parse reads a selection in either form. An empty one selects nothing. Every
// error is an *Error, with positions such as "networks[2].ips[0]".
func Parse(s string) ([]Element, error) {
	trimmed := strings.TrimSpace(s)
	if len(trimmed) > maxInput {
		return nil, &Error{"networks", "", fmt.Sprintf("has %d bytes, want at most %d", len(trimmed), maxInput)}
	}
	if trimmed == "" {
		return nil, nil
	}
	if strings.ContainsAny(trimmed[:1], "[{") {
		return parseJSON(trimmed)
	}
	return parseShort(trimmed)
}

// ParseElement reads one element as a JSON object, or an empty string for a
// network without wishes. The name may stand in the object, but not differ.
func ParseElement(name, s string) (Element, error) {
	position := "networks." + name
	e := Element{}
	if strings.TrimSpace(s) != "" {
		var err error
		if e, err = decodeElement(position, []byte(s)); err != nil {
			return Element{}, err
		}
	}
	if e.Name != "" && e.Name != name {
		return Element{}, &Error{position + ".name", e.Name, fmt.Sprintf("want %q, or leave the name out", name)}
	}
	e.Name = name
	if err := e.validate(position); err != nil {
		return Element{}, err
	}
	return e, nil
}

func parseShort(s string) ([]Element, error) {
	var elements []Element
	for i, item := range strings.Split(s, ",") {
		position := fmt.Sprintf("networks[%d]", i)
		name, iface, named := strings.Cut(strings.TrimSpace(item), "@")
		if named && iface == "" {
			return nil, &Error{position, item, "want an interface name after '@', as in mgmt@net5"}
		}
		e := Element{Name: name, Interface: iface}
		if err := e.validate(position); err != nil {
			return nil, err
		}
		elements = append(elements, e)
	}
	return limited(elements)
}

func parseJSON(s string) ([]Element, error) {
	if s[0] == '{' {
		s = "[" + s + "]"
	}
	var items []json.RawMessage
	if err := decode("networks", []byte(s), &items); err != nil {
		return nil, err
	}
	var elements []Element
	for i, item := range items {
		position := fmt.Sprintf("networks[%d]", i)
		e, err := decodeElement(position, item)
		if err != nil {
			return nil, err
		}
		if err := e.validate(position); err != nil {
			return nil, err
		}
		elements = append(elements, e)
	}
	return limited(elements)
}

func limited(elements []Element) ([]Element, error) {
	if len(elements) > Max {
		return nil, &Error{"networks", "", fmt.Sprintf("has %d networks, want at most %d", len(elements), Max)}
	}
	return elements, nil
}

// keys are those of an element.
var keys = []string{
	"name", "interface", "ips", "mac", "mtu", "bandwidth", "portMappings",
	"default-route", "cni-args", "infiniband-guid", "ports",
}

// decodeElement reads an element. encoding/json takes keys in any case; others
// that read the same text do not, so it is held to the exact ones.
func decodeElement(position string, data []byte) (Element, error) {
	var present map[string]json.RawMessage
	if err := decode(position, data, &present); err != nil {
		return Element{}, err
	}
	for _, key := range slices.Sorted(maps.Keys(present)) {
		if !slices.Contains(keys, key) {
			return Element{}, &Error{position, key, "unknown key: want " + strings.Join(keys, ", ")}
		}
	}
	var e Element
	return e, decode(position, data, &e)
}

// decode reads exactly one JSON value into target, with no key that target
// does not know and none twice.
func decode(position string, data []byte, target any) error {
	if key, twice := repeatedKey(data); twice {
		return &Error{position, key, "the key stands twice"}
	}
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	decoder.UseNumber()
	if err := decoder.Decode(target); err != nil {
		return decodeError(position, err)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return &Error{position, "", "want one JSON value and nothing after it"}
	}
	return nil
}

func decodeError(position string, err error) error {
	var typed *json.UnmarshalTypeError
	if errors.As(err, &typed) {
		if typed.Field != "" {
			position += "." + typed.Field
		}
		return &Error{position, typed.Value, "want a JSON value of type " + jsonType(typed.Type.Kind().String())}
	}
	if key, ok := strings.CutPrefix(err.Error(), "json: unknown field "); ok {
		return &Error{position, strings.Trim(key, `"`), "unknown key"}
	}
	return &Error{position, "", strings.TrimPrefix(err.Error(), "json: ")}
}

func jsonType(kind string) string {
	switch kind {
	case "struct", "map", "ptr":
		return "object"
	case "slice":
		return "list"
	case "int", "uint64":
		return "number"
	}
	return kind
}

// repeatedKey finds a key that stands twice in one object: encoding/json would
// take the last, others the first.
func repeatedKey(data []byte) (string, bool) {
	decoder := json.NewDecoder(bytes.NewReader(data))
	type level struct {
		seen  map[string]bool // nil in a list
		value bool            // the next token of an object is a value
	}
	var stack []*level
	for {
		token, err := decoder.Token()
		if err != nil {
			return "", false // decoding will say what is wrong
		}
		top := &level{}
		if len(stack) > 0 {
			top = stack[len(stack)-1]
		}
		key, isText := token.(string)
		if top.seen != nil && !top.value && isText {
			if top.seen[key] {
				return key, true
			}
			top.seen[key], top.value = true, true
			continue
		}
		top.value = false
		switch token {
		case json.Delim('{'):
			stack = append(stack, &level{seen: map[string]bool{}})
		case json.Delim('['):
			stack = append(stack, &level{})
		case json.Delim('}'), json.Delim(']'):
			stack = stack[:len(stack)-1]
		}
	}
}
