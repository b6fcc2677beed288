// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package selection

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/allocnet/allocnet/internal/strictjson"
)

// maxInput bounds a selection. 64 rich elements have less than half of this.
const maxInput = 64 << 10

// Parse reads a selection in either form. An empty one selects nothing. Each error is
// an *Error, with a position such as "networks[2].ips[0]".
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

// ParseElement reads one element as a JSON object; an empty string is an element with
// the name alone. A name in the object must be the same.
func ParseElement(name, s string) (Element, error) {
	position := "networks." + name
	e := Element{}
	if strings.TrimSpace(s) != "" {
		err := wellFormed(position, s, s)
		if err != nil {
			return Element{}, err
		}
		if e, err = decodeElement(position, []byte(s)); err != nil {
			return Element{}, err
		}
	}
	if e.Name != "" && e.Name != name {
		return Element{}, &Error{position + ".name", e.Name, fmt.Sprintf("want %q, or no name", name)}
	}
	e.Name = name
	if err := validate(e, position); err != nil {
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
		if err := validate(e, position); err != nil {
			return nil, err
		}
		elements = append(elements, e)
	}
	return limited(elements)
}

func parseJSON(s string) ([]Element, error) {
	list := s
	if s[0] == '{' {
		list = "[" + s + "]"
	}
	if err := wellFormed("networks", s, list); err != nil {
		return nil, err
	}
	var items []json.RawMessage
	if err := decode("networks", []byte(list), &items); err != nil {
		return nil, err
	}
	var elements []Element
	for i, item := range items {
		position := fmt.Sprintf("networks[%d]", i)
		e, err := decodeElement(position, item)
		if err != nil {
			return nil, err
		}
		if err := validate(e, position); err != nil {
			return nil, err
		}
		elements = append(elements, e)
	}
	return limited(elements)
}

// wellFormed returns an error with the place in s if the list, which is s or s in brackets, is no JSON.
func wellFormed(position, s, list string) error {
	var syntax *json.SyntaxError
	if !errors.As(json.Unmarshal([]byte(list), new(json.RawMessage)), &syntax) {
		return nil
	}
	reason, offset := strictjson.Reason(syntax), syntax.Offset-int64(len(list)-len(s))/2
	if offset > int64(len(s)) { // the bracket was not expected
		reason = strictjson.Reason(io.ErrUnexpectedEOF)
	}
	line, column := strictjson.Position([]byte(s), &json.SyntaxError{Offset: offset})
	return &Error{position, "", fmt.Sprintf("line %d, column %d: %s", line, column, reason)}
}

func limited(elements []Element) ([]Element, error) {
	if len(elements) > maxNetworks {
		return nil, &Error{"networks", "", fmt.Sprintf("has %d networks, want at most %d", len(elements), maxNetworks)}
	}
	return elements, nil
}

// decodeElement reads an element. Its keys, and those of the objects in it, must match exactly, and be there once: encoding/json ignores
// their case, and uses the last of several values. Other readers of the same text do not.
func decodeElement(position string, data []byte) (Element, error) {
	var e Element
	if err := decode(position, data, &e); err != nil {
		return Element{}, err
	}
	mistakes, err := strictjson.Text{Data: data}.Check(strictjson.Form{Of: position, Into: &e, Exact: true})
	if err != nil { // it is JSON
		return Element{}, &Error{position, "", err.Error()}
	}
	if len(mistakes) == 0 {
		return e, nil
	}
	m := mistakes[0]
	if m.Twice && (m.Known == nil || slices.Contains(m.Known, m.Key)) {
		return Element{}, &Error{m.Of, m.Key, "duplicate key"}
	}
	return Element{}, &Error{m.Of, m.Key, "unknown key: want " + strings.Join(m.Known, ", ")}
}

// decode reads exactly one JSON value into target.
func decode(position string, data []byte, target any) error {
	decoder := json.NewDecoder(bytes.NewReader(data))
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
	if typed, ok := errors.AsType[*json.UnmarshalTypeError](err); ok && typed.Field != "" {
		position += "." + typed.Field
	}
	return &Error{position, "", strictjson.Reason(err)}
}
