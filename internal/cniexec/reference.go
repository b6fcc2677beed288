// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package cniexec

import (
	"debug/buildinfo"
	"strings"

	"github.com/containernetworking/cni/pkg/types"
)

// referenceModule begins the package paths of the reference plugins.
const referenceModule = "github.com/containernetworking/plugins/"

// answer returns what a plugin printed. That of a reference plugin can be told apart.
func answer(path string, printed *types.Error) error {
	built, err := buildinfo.ReadFile(path)
	if err != nil || !strings.HasPrefix(built.Path, referenceModule) {
		return printed
	}
	return &referenceAnswer{printed}
}

// referenceAnswer is what a reference plugin printed.
type referenceAnswer struct{ error }

// Unwrap gives what was printed.
func (r *referenceAnswer) Unwrap() error { return r.error }

// Cause is not known.
func (*referenceAnswer) Cause() error { return nil }
