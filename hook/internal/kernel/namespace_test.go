// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package kernel

import (
	"errors"
	"testing"

	"github.com/allocnet/allocnet/internal/errdefs"
	"github.com/allocnet/allocnet/internal/netns"
	"github.com/allocnet/allocnet/internal/roottest"
)

// TestRootHostIsNoNamespace: an attachment to the host's own namespace would change the host, and its DEL would remove the host's interfaces.
func TestRootHostIsNoNamespace(t *testing.T) {
	roottest.Require(t)
	for _, path := range []string{"/proc/self/ns/net", "/proc/thread-self/ns/net"} {
		_, err := NewNamespaces().Open(path)
		if !errors.Is(err, netns.ErrMissing) || errdefs.Of(err) != errdefs.Refused {
			t.Errorf("%s: %v", path, err)
		}
	}
}
