// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package echo

import (
	"context"
	"errors"
	"net/netip"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/internal/roottest"
)

// TestRootPing: an address of this host answers, and one that is not there does not.
func TestRootPing(t *testing.T) {
	roottest.Require(t)
	ping := func(r Request, limit time.Duration) (time.Duration, error) {
		ctx, stop := context.WithTimeout(t.Context(), limit)
		defer stop()
		return Ping(ctx, r)
	}
	local := Request{Target: netip.MustParseAddr("127.0.0.1")}
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
	if _, err := ping(Request{Target: local.Target, Device: "none0"}, time.Minute); err == nil || !strings.Contains(err.Error(), "interface none0: ") {
		t.Errorf("without the device: %v", err)
	}
}

// TestRootSize: a packet has the size that is asked for, and one that does not fit is not taken apart.
func TestRootSize(t *testing.T) {
	roottest.Require(t)
	for _, target := range []string{"127.0.0.1", "::1"} {
		r := Request{Target: netip.MustParseAddr(target), Size: 65535} // lo has 65536
		if target == "::1" {
			r.Size = 65536
		}
		ctx, stop := context.WithTimeout(t.Context(), time.Minute)
		if _, err := Ping(ctx, r); err != nil {
			t.Errorf("%s: %d bytes: %v", target, r.Size, err)
		}
		r.Size = 70000
		if _, err := Ping(ctx, r); !errors.Is(err, unix.EMSGSIZE) {
			t.Errorf("%s: %d bytes: %v, want EMSGSIZE", target, r.Size, err)
		}
		stop()
	}
}

// TestNotPermitted: without the right to send, the error is that of the system.
func TestNotPermitted(t *testing.T) {
	var err error
	var group sync.WaitGroup
	group.Go(func() {
		runtime.LockOSThread() // the thread, which has no capability any more, ends with the goroutine
		none := [2]unix.CapUserData{}
		if err = unix.Capset(&unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, &none[0]); err == nil {
			_, err = Ping(t.Context(), Request{Target: netip.MustParseAddr("127.0.0.1")})
		}
	})
	group.Wait()
	if !errors.Is(err, unix.EPERM) {
		t.Errorf("got %v, want EPERM", err)
	}
}
