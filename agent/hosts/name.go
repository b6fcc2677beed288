// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package hosts

import (
	"crypto/sha256"
	"fmt"
	"regexp"
	"strings"
)

const (
	// longestLabel leaves room for the index in a label of 63 characters, and longestBase for the hash in that.
	longestLabel = 52
	longestBase  = longestLabel - len(hashed) - 2*hashBytes
	// hashed comes before the hash. No label without one has it.
	hashed    = "--"
	hashBytes = 8
)

var (
	isLabel = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]*[a-z0-9])?$`)
	noLabel = regexp.MustCompile(`[^a-z0-9]+`)
)

// nameOf returns the name of an allocation on a network. Two have one name only if job, index and network are the same.
func nameOf(job string, index int, network string) string {
	return fmt.Sprintf("%s-%d.%s", label(job), index, label(network))
}

// label returns a label of a host name for what the author of a job chose. Names are compared without case.
func label(text string) string {
	if len(text) <= longestLabel && isLabel.MatchString(text) && !strings.Contains(text, hashed) {
		return text
	}
	base := strings.Trim(noLabel.ReplaceAllString(strings.ToLower(text), "-"), "-")
	base = strings.TrimRight(base[:min(len(base), longestBase)], "-")
	if base == "" {
		base = "x"
	}
	sum := sha256.Sum256([]byte(text))
	return fmt.Sprintf("%s%s%x", base, hashed, sum[:hashBytes])
}
