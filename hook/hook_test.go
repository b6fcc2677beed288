// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package hook

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/allocnet/allocnet/selection"
	"github.com/allocnet/allocnet/state"
)

func TestNew(t *testing.T) {
	for name, want := range map[string]string{CNI: "*hook.Engine", NoOp: "hook.noOp"} {
		host := &fakeHost{}
		h, err := New(name, Config{StateDir: t.TempDir(), Host: host})
		if (host.filtered > 0) != (name == NoOp) {
			t.Errorf("%s: bridged traffic is filtered: %t", name, host.filtered > 0)
		}
		if err != nil || fmt.Sprintf("%T", h) != want {
			t.Errorf("%s: %T, %v", name, h, err)
		}
	}
	if _, err := New("x", Config{}); err == nil || !strings.Contains(err.Error(), `"x"`) {
		t.Errorf("unknown: %v", err)
	}
}

func TestNoOp(t *testing.T) {
	ctx, h := context.Background(), noOp{}
	if a, err := h.Setup(ctx, Request{ID: "a", Netns: "/proc/1/ns/net"}); err != nil || len(a.Attachments) != 0 {
		t.Errorf("Setup: %+v, %v", a, err)
	}
	var refused *RequestError
	if _, err := h.Setup(ctx, Request{ID: "a", Primary: &selection.Element{Name: "web"}}); !errors.As(err, &refused) || !strings.Contains(err.Error(), `use the hook "cni"`) {
		t.Errorf("Setup with a network: %v, want *RequestError", err)
	}
	if _, err := h.Status(ctx, "a"); !errors.Is(err, state.ErrNotFound) {
		t.Errorf("Status: %v, want ErrNotFound", err)
	}
	if err := h.Teardown(ctx, "a"); err != nil {
		t.Errorf("Teardown: %v", err)
	}
}

func TestDelayAndSleep(t *testing.T) {
	for range 1000 {
		if d := delay(); d < time.Second || d >= 2*time.Second {
			t.Fatalf("delay %s, want 1 s to 2 s", d)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		if err := sleep(t.Context(), time.Hour); err != nil || time.Since(begun) != time.Hour {
			t.Errorf("slept %s, %v", time.Since(begun), err)
		}
		gaveUp := errors.New("gave up")
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Minute, gaveUp)
		defer cancel()
		begun = time.Now()
		if err := sleep(ctx, time.Hour); !errors.Is(err, gaveUp) || time.Since(begun) != time.Minute {
			t.Errorf("slept %s, %v", time.Since(begun), err)
		}
	})
}

func TestInOrder(t *testing.T) {
	after := [][]int{nil, {0}, {1}, nil, {0, 3}}
	var mu sync.Mutex
	var order []int
	inOrder(t.Context(), len(after), func(i int) []int { return after[i] }, func(i int) {
		mu.Lock()
		defer mu.Unlock()
		order = append(order, i)
	})
	for i, before := range after {
		for _, j := range before {
			if slices.Index(order, j) > slices.Index(order, i) {
				t.Errorf("%d came before %d: %v", i, j, order)
			}
		}
	}
	synctest.Test(t, func(t *testing.T) { // all at once: ten waits take as long as one
		begun := time.Now()
		inOrder(t.Context(), 10, func(int) []int { return nil }, func(int) { time.Sleep(time.Second) })
		if took := time.Since(begun); took != time.Second {
			t.Errorf("took %s", took)
		}
	})
}

func TestErrorNamesAll(t *testing.T) {
	cause := errors.New("no such VLAN")
	err := &Error{Op: "attach", Allocation: "a1", Network: "storage", Interface: "net1", Attempts: 3, Err: cause}
	if got := err.Error(); got != `attach network "storage" as net1 of allocation a1 (3 attempts): no such VLAN` || !errors.Is(err, cause) {
		t.Errorf("got %s", got)
	}
}
