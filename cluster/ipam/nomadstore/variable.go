// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package nomadstore

import (
	"encoding/json"
	"fmt"
	"regexp"
	"unicode/utf8"

	"github.com/allocnet/allocnet/cluster/ipam"
)

// item is the one item of a variable.
const item = "entry"

// mostBytes of a variable are read: Nomad's 64 KiB, of which JSON can make six times as much.
const mostBytes = 512 << 10

type variable struct {
	Path        string
	ModifyIndex uint64
	Items       map[string]string
}

// What Nomad stores: paths of a form, and variables of at most 64 KiB, with the names of their
// items. Before it answers so with the status 400, as in 1.6.2, it says it with one that leaves open
// what was done.
const (
	mostStored  = 64<<10 - len(item)
	longestPath = 128
)

// validPath has no bounds: to compile those takes two milliseconds of each start.
var validPath = regexp.MustCompile(`^[a-zA-Z0-9-_~/]+$`)

// encode returns the body of a request to write a variable.
func encode(path string, content []byte) ([]byte, error) {
	switch {
	case len(path) > longestPath || !validPath.MatchString(path):
		return nil, fmt.Errorf("%w: the path %.256q of a variable: want 1 to 128 letters, digits, '-', '_', '~' and '/'", ipam.ErrRefused, path)
	case len(content) > mostStored:
		return nil, fmt.Errorf("%w: %s: the content has %d bytes, and a variable at most %d", ipam.ErrRefused, path, len(content), mostStored)
	case !utf8.Valid(content):
		return nil, fmt.Errorf("%w: %s: a variable is text, and %d bytes are not", ipam.ErrRefused, path, len(content))
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
