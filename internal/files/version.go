// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package files

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
)

// ErrLater is the error for a file of which only a later release knows what it says.
var ErrLater = errors.New("it was written by a later release: install that one again")

// DecodeVersion reads JSON that has a version, 0 if it has none. That of a later version than the latest that is known is
// ErrLater, whatever keys it has: it is neither damaged nor without what is not understood.
func DecodeVersion(data []byte, latest int, v any) error {
	// As this release writes it. To look for its version takes as long as to read it.
	if bytes.HasPrefix(data, fmt.Appendf(nil, `{"version":%d,`, latest)) {
		return json.Unmarshal(data, v)
	}
	var has struct{ Version int }
	if json.Unmarshal(data, &has) == nil && has.Version > latest {
		return fmt.Errorf("version is %d, want at most %d: %w", has.Version, latest, ErrLater)
	}
	return json.Unmarshal(data, v)
}

// ErrDamaged is the error for a file that does not say what it should.
var ErrDamaged = errors.New("it is damaged")

// ReadVersion is DecodeVersion for a file; see ReadNoFollow. The value stays as it is if there is none. Else it is of no use
// with an error, which names the path: ErrLater, ErrDamaged, or that of reading.
func ReadVersion(path string, latest int, v any) error {
	data, err := IfExists(ReadNoFollow(path))
	if err != nil || data == nil {
		return err
	}
	switch err := DecodeVersion(data, latest, v); {
	case errors.Is(err, ErrLater):
		return fmt.Errorf("%s: %w", path, err)
	case err != nil:
		return fmt.Errorf("%s: %w: %w", path, ErrDamaged, err)
	}
	return nil
}
