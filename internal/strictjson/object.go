// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Package strictjson finds in JSON what encoding/json accepts in silence: keys that nothing
// reads, and keys that an object has twice.
package strictjson

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
)

// Text is a part of a file.
type Text struct {
	Path string
	// Line is that of the first byte, from 1.
	Line int
	Data json.RawMessage
	// IsPart is whether there may be more before it in its first line.
	IsPart bool
}

// Member is a key of an object with its value.
type Member struct {
	Key string
	// Line is that of the end of the key.
	Line  int
	Value Text
}

// Members returns the members of an object, in order. The error is that of encoding/json.
func (t Text) Members() ([]Member, error) {
	return split(t, '{', "want one JSON object", func(d *json.Decoder) (m Member, err error) {
		token, err := d.Token()
		m.Key, _ = token.(string)
		m.Line = t.lineAt(d.InputOffset())
		return m, err
	})
}

// Elements returns the elements of an array.
func (t Text) Elements() ([]Text, error) {
	members, err := split(t, '[', "want one JSON array", func(*json.Decoder) (Member, error) { return Member{}, nil })
	elements := make([]Text, len(members))
	for i, m := range members {
		elements[i] = m.Value
	}
	return elements, err
}

// split returns the members between two delimiters; begin reads what comes before a value.
func split(t Text, open json.Delim, want string, begin func(*json.Decoder) (Member, error)) ([]Member, error) {
	decoder := json.NewDecoder(bytes.NewReader(t.Data))
	if first, err := decoder.Token(); errors.Is(err, io.EOF) { // there is no value
		return nil, errors.New(want)
	} else if err != nil || first != open {
		return nil, errors.Join(err, errors.New(want))
	}
	var members []Member
	for decoder.More() {
		m, err := begin(decoder)
		if err != nil {
			return nil, err
		}
		if err := decoder.Decode(&m.Value.Data); err != nil {
			return nil, err
		}
		m.Value.Path, m.Value.IsPart, m.Value.Line = t.Path, true, t.lineAt(decoder.InputOffset()-int64(len(m.Value.Data)))
		members = append(members, m)
	}
	if _, err := decoder.Token(); err != nil {
		return nil, err
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New(want + " and nothing after it")
	}
	return members, nil
}

func (t Text) lineAt(offset int64) int { return t.Line + bytes.Count(t.Data[:offset], []byte("\n")) }

// Decode decodes a text that is one value, and has no key that the target does not know. An error has its place.
func (t Text) Decode(into any) error {
	decoder := json.NewDecoder(bytes.NewReader(t.Data))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(into); err != nil {
		return t.Located(err)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return t.Located(errors.New("want one JSON value and nothing after it"))
	}
	return nil
}
