// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package selection

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/allocnet/allocnet/allocation"
	"github.com/allocnet/allocnet/internal/errdefs"
	"github.com/allocnet/allocnet/internal/strictjson"
)

// maxNetworks is the number of networks that one allocation may have.
const maxNetworks = 64

// MinMTU is the smallest MTU that a selection may have. On a smaller one the
// kernel drops IPv6 and its addresses (RFC 8200, section 5).
const MinMTU = 1280

// What a job asks for.
type (
	// Element selects one network for an allocation.
	Element = allocation.Element
	// Bandwidth is the bandwidth capability of the CNI conventions.
	Bandwidth = allocation.Bandwidth
	// PortMapping is an element of the portMappings capability.
	PortMapping = allocation.ChosenPort
	// Narrowing is what a job leaves of the traffic of its allocations.
	Narrowing = allocation.Narrowing
)

func hasArg(e Element, key string) bool {
	for name := range e.CNIArgs {
		if strings.EqualFold(name, key) {
			return true
		}
	}
	return false
}

// ambiguousKey returns a key that a value, or one in it, has in two spellings. Plugins ignore the case of keys,
// and read one of them.
func ambiguousKey(value any) string {
	switch value := value.(type) {
	case []any:
		for _, element := range value {
			if key := ambiguousKey(element); key != "" {
				return key
			}
		}
	case map[string]any:
		seen := map[string]bool{}
		for _, key := range slices.Sorted(maps.Keys(value)) {
			folded := strictjson.Fold(key)
			if seen[folded] {
				return key
			}
			seen[folded] = true
			if inner := ambiguousKey(value[key]); inner != "" {
				return inner
			}
		}
	}
	return ""
}

// Error is a selection that is refused.
type Error struct {
	// Position is the path of the value, as in "networks[2].ips[0]".
	Position string
	// Value is the invalid value. Empty: the reason has it.
	Value string
	// Reason describes a valid value.
	Reason string
}

func (e *Error) Error() string {
	if e.Value == "" {
		return fmt.Sprintf("%s: %s", e.Position, e.Reason)
	}
	return fmt.Sprintf("%s: %q: %s", e.Position, e.Value, e.Reason)
}

// Kind is that of package errdefs.
func (*Error) Kind() errdefs.Kind { return errdefs.Refused }
