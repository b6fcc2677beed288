// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package files

import (
	"encoding/json"
	"errors"
	"fmt"
)

// ErrLater is the error for a file of which only a later release knows what it says.
var ErrLater = errors.New("it was written by a later release: install that one again")

// DecodeVersion reads JSON that has a version, 0 if it has none. That of a later version than the latest that is known is
// ErrLater, whatever keys it has: it is neither damaged nor without what is not understood.
func DecodeVersion(data []byte, latest int, v any) error {
	var has struct{ Version int }
	if json.Unmarshal(data, &has) == nil && has.Version > latest {
		return fmt.Errorf("version is %d, want at most %d: %w", has.Version, latest, ErrLater)
	}
	return json.Unmarshal(data, v)
}
