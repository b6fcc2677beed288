// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package client

import (
	"errors"
	"net"
	"path/filepath"
	"testing"
	"time"

	"github.com/allocnet/allocnet/internal/errdefs"
)

// TestSilentAgent: an agent that accepts and does not answer is unavailable.
func TestSilentAgent(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "agent.sock")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close() // nothing was written
	c := New(socket)
	c.patience = 50 * time.Millisecond
	if _, err := c.Cluster(t.Context()); !errors.Is(err, ErrUnavailable) || errdefs.Of(err) != errdefs.Unavailable {
		t.Errorf("the error is %v", err)
	}
}
