// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package nomad

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
)

// Version is the version of a Nomad agent: major, minor and patch. The zero value is
// unknown.
type Version [3]int

// The first versions with what allocnet depends on.
var (
	// JobArguments: a network block of a job can have CNI arguments.
	JobArguments = Version{1, 8, 2}
	// Identity: the agent sets the namespace and the job of an allocation as CNI
	// arguments, and a job cannot override them.
	Identity = Version{1, 9, 4}
)

var version = regexp.MustCompile(`^v?(\d{1,4})\.(\d{1,4})\.(\d{1,4})(?:[-+].*)?$`)

// ParseVersion reads a version such as "1.8.4" or "v1.10.0-beta.1".
func ParseVersion(text string) (Version, error) {
	match := version.FindStringSubmatch(text)
	if match == nil {
		return Version{}, fmt.Errorf("version %q: want one such as 1.11.3", text)
	}
	var v Version
	for i := range v {
		v[i], _ = strconv.Atoi(match[i+1]) // digits
	}
	return v, nil
}

func (v Version) String() string { return fmt.Sprintf("%d.%d.%d", v[0], v[1], v[2]) }

// Has reports whether the version has what another was the first to have. An unknown
// version has everything: it is taken for the newest.
func (v Version) Has(since Version) bool {
	return v == Version{} || slices.Compare(v[:], since[:]) >= 0
}

// JobsForgeIdentity reports whether a job can set the identity of its allocations: it can
// have CNI arguments, and the agent does not set its own.
func (v Version) JobsForgeIdentity() bool { return v.Has(JobArguments) && !v.Has(Identity) }
