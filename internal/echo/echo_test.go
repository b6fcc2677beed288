// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package echo

import (
	"context"
	"errors"
	"net/netip"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestPing: an address of this host answers, and one that is not there does not. Without the
// right to send, the error is that of the system.
func TestPing(t *testing.T) {
	ping := func(r Request, limit time.Duration) (time.Duration, error) {
		ctx, stop := context.WithTimeout(t.Context(), limit)
		defer stop()
		return Ping(ctx, r)
	}
	local := Request{Target: netip.MustParseAddr("127.0.0.1")}
	if os.Geteuid() != 0 {
		if _, err := ping(local, time.Minute); !errors.Is(err, unix.EPERM) {
			t.Errorf("without root: %v", err)
		}
		return
	}
	for name, r := range map[string]Request{
		"by the route": local, "through a device": {Target: local.Target, Device: "lo"}, "from an address": {Target: local.Target, Source: netip.MustParseAddr("127.0.0.2")},
	} {
		if took, err := ping(r, time.Minute); err != nil || took <= 0 {
			t.Errorf("%s: %s, %v", name, took, err)
		}
	}
	// What is sent to an address through lo that lo does not have gets no answer.
	if _, err := ping(Request{Target: netip.MustParseAddr("192.0.2.1"), Device: "lo", Source: netip.MustParseAddr("127.0.0.1")}, 20*time.Millisecond); !errors.Is(err, ErrSilent) {
		t.Errorf("an address of no host: %v", err)
	}
	if _, err := ping(Request{Target: local.Target, Device: "none0"}, time.Minute); !errors.Is(err, unix.ENODEV) {
		t.Errorf("without the device: %v", err)
	}
}
