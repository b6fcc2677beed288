// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package plugin

import (
	"context"
	"errors"
	"strings"

	"github.com/containernetworking/cni/pkg/types"

	"github.com/allocnet/allocnet/ipam"
)

// cniError returns an error of a pool as the error object of the CNI specification.
func cniError(err error) error {
	if err == nil {
		return nil
	}
	var own *types.Error
	if errors.As(err, &own) {
		return own
	}
	return coded(codeOf(err), err)
}

func codeOf(err error) uint {
	for _, k := range codes {
		if errors.Is(err, k.err) {
			return k.code
		}
	}
	return types.ErrInternal
}

// codes are those of errors that have a meaning for runtimes. The first one that an error
// wraps decides.
var codes = []struct {
	err  error
	code uint
}{
	{ipam.ErrInvalid, types.ErrInvalidNetworkConfig},
	{ipam.ErrMismatch, types.ErrInvalidNetworkConfig},
	{ipam.ErrTwin, types.ErrInvalidNetworkConfig},
	{ipam.ErrExhausted, types.ErrTryAgainLater},
	{ipam.ErrFenced, types.ErrTryAgainLater},
	{ipam.ErrUnavailable, types.ErrTryAgainLater},
	{ipam.ErrRefused, types.ErrTryAgainLater},
	{context.DeadlineExceeded, types.ErrTryAgainLater},
}

// unavailable returns the error of STATUS.
func unavailable(err error) error {
	if err == nil {
		return nil
	}
	return coded(types.ErrPluginNotAvailable, err)
}

// coded returns an error object whose message is one line.
func coded(code uint, err error) error {
	lines := strings.FieldsFunc(err.Error(), func(c rune) bool { return c == '\n' || c == '\r' })
	return types.NewError(code, strings.Join(lines, "; "), "")
}
