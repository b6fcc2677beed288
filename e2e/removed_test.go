// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package e2e

import (
	"context"
	"strings"
	"testing"

	"github.com/allocnet/allocnet/cleanup"
	"github.com/allocnet/allocnet/hook"
	"github.com/allocnet/allocnet/internal/fakecni"
	"github.com/allocnet/allocnet/internal/sandbox"
	"github.com/allocnet/allocnet/selection"
)

// TestInterfaceOfAnotherProgram: once DEL has removed an interface, the name is free for
// the program that made the namespace. Retries for another attachment of the same task
// do not remove the interface that the program gives that name.
func TestInterfaceOfAnotherProgram(t *testing.T) {
	h := newHost(t)
	h.fake("fake", fakecni.Script{Verbs: map[string]fakecni.Behaviour{"DEL": {Code: 7, Msg: "cannot", FailTimes: 1, Counter: t.TempDir() + "/counter"}}})
	path := foreign(t, "r1")
	e := h.engine(func(c *hook.Config) { c.Cleaner = &cleanup.Cleaner{} })
	ctx := context.Background()
	request := hook.Request{ID: "r1", Netns: path, Task: "web", Networks: []selection.Element{{Name: "storage"}, {Name: "fake"}}}
	if _, err := e.Extend(ctx, request); err != nil {
		t.Fatal(err)
	}
	if err := e.Release(ctx, "r1", "web"); err == nil {
		t.Error("a DEL that fails succeeded")
	}
	sandbox.Run(t, "ip", "-n", "r1", "link", "add", "net1", "type", "veth", "peer", "name", "peer1") // DEL has removed net1
	if err := e.Release(ctx, "r1", "web"); err != nil {
		t.Error(err)
	}
	if links := sandbox.Run(t, "ip", "-n", "r1", "-br", "link"); !strings.Contains(links, "net1") {
		t.Errorf("the namespace has lost the net1 of another program:\n%s", links)
	}
}
