// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package netns_test

import (
	"errors"
	"testing"

	"github.com/allocnet/allocnet/internal/netns"
	"github.com/allocnet/allocnet/internal/roottest"
)

// TestRootUnmountedMeanwhile: a namespace that is removed while it is opened is missing.
func TestRootUnmountedMeanwhile(t *testing.T) {
	roottest.Require(t)
	done := make(chan error, 1)
	go func() {
		for range 400 {
			path, err := netns.Create(netns.DefaultDir, "unmounted")
			if err == nil {
				err = netns.Remove(path)
			}
			if err != nil {
				done <- err
				return
			}
		}
		done <- nil
	}()
	for {
		n, err := netns.Open(netns.DefaultDir + "/unmounted")
		if err == nil {
			err = n.Close()
		}
		if err != nil && !errors.Is(err, netns.ErrMissing) {
			t.Error(err)
		}
		select {
		case err := <-done:
			if err != nil {
				t.Error(err)
			}
			return
		default:
		}
	}
}
