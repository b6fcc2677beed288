// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package plugin

import (
	"errors"
	"io/fs"
	"strings"

	"github.com/containernetworking/cni/pkg/types"

	"github.com/allocnet/allocnet/internal/errdefs"
)

func cniError(err error) error {
	if err == nil {
		return nil
	}
	if own, ok := errors.AsType[*types.Error](err); ok {
		return own
	}
	return coded(codeOf(err), err)
}

func codeOf(err error) uint {
	switch errdefs.Of(err) {
	case errdefs.Refused:
		return types.ErrInvalidNetworkConfig
	case errdefs.Unavailable, errdefs.Timeout, errdefs.Conflict:
		return types.ErrTryAgainLater
	}
	if _, ok := errors.AsType[*fs.PathError](err); ok {
		return types.ErrIOFailure
	}
	return types.ErrInternal
}

func codedUnlessNil(code uint, err error) error {
	if err == nil {
		return nil
	}
	return coded(code, err)
}

// coded returns an error object whose message is one line.
func coded(code uint, err error) error {
	lines := strings.FieldsFunc(err.Error(), func(c rune) bool { return c == '\n' || c == '\r' })
	return types.NewError(code, strings.Join(lines, "; "), "")
}
