// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package hook

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

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
