// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package strictjson

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
)

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
