// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package cniconf

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/containernetworking/cni/pkg/utils"

	"github.com/allocnet/allocnet/internal/errdefs"
	"github.com/allocnet/allocnet/internal/files"
	"github.com/allocnet/allocnet/internal/strictjson"
)

// maxFile bounds a configuration file. Real ones have a few KiB.
const maxFile = 1 << 20

// BrokenFile is a configuration file that cannot be used.
type BrokenFile struct {
	Path string
	// Line and Column are the position of the error in the JSON, from 1; 0 for an
	// error without a position.
	Line, Column int
	Err          error
	// Network is the name of the file's network, as far as it can be read.
	Network string

	// named are the names that may be meant if Network is not a valid name.
	named []string
}

func (b BrokenFile) Error() string {
	if b.Line > 0 {
		return fmt.Sprintf("%s:%d:%d: %v", b.Path, b.Line, b.Column, b.Err)
	}
	return fmt.Sprintf("%s: %v", b.Path, b.Err)
}

// Kind is that of package errdefs.
func (BrokenFile) Kind() errdefs.Kind { return errdefs.Failed }

func (b BrokenFile) Unwrap() error { return b.Err }

// asBroken makes a broken file of the error of reading a network's file.
func asBroken(path string, err error) BrokenFile {
	broken, ok := errors.AsType[BrokenFile](err)
	if !ok {
		broken = BrokenFile{Path: path, Err: err}
	}
	data, _ := readFile(path) // err has the reason
	broken.Network = nameIn(data)
	if utils.ValidateNetworkName(broken.Network) != nil {
		for _, match := range nameKey.FindAllSubmatch(data, -1) { // it may be no JSON
			broken.named = append(broken.named, string(match[1]))
		}
	}
	return broken
}

// keeps tells whether the file keeps the name of the network: it may have rules for it,
// even if the text ends before them.
func (b BrokenFile) keeps(network string) bool {
	return b.Network == network || slices.Contains(b.named, network)
}

// located adds the line and column to an error of encoding/json.
func located(path string, data []byte, err error) error {
	broken := BrokenFile{Path: path, Err: err}
	broken.Line, broken.Column = strictjson.Position(data, err)
	var typed *json.UnmarshalTypeError
	if broken.Line > 0 && !errors.As(err, &typed) { // else it names the field
		broken.Err = errors.New(strictjson.Reason(err))
	}
	return broken
}

// nameIn reads the name of a network as far as the JSON goes. Of several the last
// is valid, as in a file that is not broken.
func nameIn(data []byte) (name string) {
	decoder := json.NewDecoder(bytes.NewReader(data))
	if start, err := decoder.Token(); err != nil || start != json.Delim('{') {
		return ""
	}
	for decoder.More() {
		key, err := decoder.Token()
		if err != nil {
			break
		}
		var value any
		if decoder.Decode(&value) != nil {
			break
		}
		if key, _ := key.(string); strings.EqualFold(key, "name") {
			name, _ = value.(string)
		}
	}
	return name
}

// nameKey is a key "name" of any object and the name that follows. Quotes or the colon may
// be missing, but not all of them: "nameservers" is another key.
var nameKey = regexp.MustCompile(`(?i)(?:^|[^\w.-])name[\s"':=]+([\w.-]+)`)

// readFile reads a regular file of a sensible size. Of a larger one it returns the start,
// and an error.
func readFile(path string) ([]byte, error) {
	data, err := files.ReadStart(path, os.O_RDONLY, maxFile+1)
	if err == nil && len(data) > maxFile {
		return data[:maxFile], fmt.Errorf("file has at least %d bytes, want at most %d", len(data), maxFile)
	}
	return data, err
}
