// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package nomadstore

import (
	"encoding/json"
	"fmt"
	"unicode/utf8"

	"github.com/allocnet/allocnet/ipam"
)

// item is the one item of a variable.
const item = "entry"

// mostBytes of a variable are read: Nomad's 64 KiB, of which JSON can make six times as much.
const mostBytes = 512 << 10

// variable is a variable in Nomad's API.
type variable struct {
	Path        string
	ModifyIndex uint64
	Items       map[string]string
}

func encode(content []byte) ([]byte, error) {
	if !utf8.Valid(content) {
		return nil, fmt.Errorf("%w: a variable is text, and %d bytes are not", ipam.ErrRefused, len(content))
	}
	return json.Marshal(map[string]any{"Items": map[string]string{item: string(content)}})
}

// decodeExisting reads an answer about a variable that exists.
func decodeExisting(body []byte, path string) (variable, error) {
	v, err := decode(body, path)
	if err == nil && v.ModifyIndex == 0 {
		err = fmt.Errorf("the answer has no index of the variable %s", path)
	}
	return v, err
}

// decode reads an answer about the variable at the path.
func decode(body []byte, path string) (variable, error) {
	var v variable
	if err := json.Unmarshal(body, &v); err != nil {
		return variable{}, fmt.Errorf("the answer is not the variable %s: %w", path, err)
	}
	if v.Path != path {
		return variable{}, fmt.Errorf("the answer is the variable %.128q, want %q", v.Path, path)
	}
	return v, nil
}
