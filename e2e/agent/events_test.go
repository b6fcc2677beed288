// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package agent

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/agent/api"
	"github.com/allocnet/allocnet/internal/fakecni"
	"github.com/allocnet/allocnet/internal/sandbox"
)

// eventJSON is an event as the command line prints it.
type eventJSON struct {
	Operation, Outcome, Reason, Caller, Allocation, Interface, Error string
	Networks                                                         []string
	Objects                                                          int
	Seconds                                                          float64
}

func (e eventJSON) String() string {
	text := fmt.Sprintf("%s %s %s %s %s", e.Allocation, e.Operation, e.Outcome, e.Caller, strings.Join(e.Networks, ","))
	if e.Reason != "" {
		text += " (" + e.Reason + ")"
	}
	return text
}

// events runs the command line. Attachments of one call are in any order.
func (h *host) events(args ...string) (texts []string, all []eventJSON) {
	h.Helper()
	out, code := h.allocnet(append([]string{"events", "--json"}, args...)...)
	if code != 0 {
		h.Fatalf("exit code %d\n%s", code, out)
	}
	for line := range strings.Lines(out) {
		var e eventJSON
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			h.Fatalf("%v: %s", err, line)
		}
		texts, all = append(texts, e.String()), append(all, e)
	}
	slices.Sort(texts)
	return texts, all
}

// TestEvents: each kind of event, by the command line, the CNI plugin and the agent, with
// real plugins. A follower gets them as they come, and ends by its signal.
func TestEvents(t *testing.T) {
	h := newHost(t)
	follower := exec.Command(binary, "events", "--follow", "--allocation", "e2")
	var followed log
	follower.Env, follower.Stdout, follower.Stderr = h.env(), &followed, &followed
	if err := follower.Start(); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	h.fake("busy", fakecni.Script{Verbs: map[string]fakecni.Behaviour{"ADD": {Code: 11, Msg: "the switch is busy", FailTimes: 1, Counter: dir + "/counter"}}})
	h.fake("refusing", fakecni.Script{Verbs: map[string]fakecni.Behaviour{"ADD": {Code: 7, Msg: "no such VLAN"}}})
	for _, args := range []string{
		"attach e1 --primary web --networks busy", "detach e1", "detach e1",
		"attach e2 --primary web --networks refusing", "attach e3 --primary= --networks none",
		"attach e4 --primary web", "attach e5 --primary web",
	} {
		h.allocnet(strings.Fields(args)...)
	}
	for _, id := range []string{"e4", "e5"} {
		sandbox.Run(t, "ip", "netns", "delete", id)
	}
	h.allocnet("detach", "e4")
	h.allocnet("gc")
	h.namespace("e6")
	h.start()
	h.requireAdded(h.cni("ADD", "e6", "require"))
	if code, text := h.request("DELETE", "/v1/allocations/e6", ""); code != 204 {
		t.Fatalf("%d %s", code, text)
	}
	texts, all := h.events()
	want := []string{
		" attach refused allocnet attach none",
		"e1 attach done allocnet attach busy", "e1 attach done allocnet attach web",
		"e1 detach done allocnet detach busy", "e1 detach done allocnet detach web",
		"e1 retry failed allocnet attach busy",
		"e2 attach done allocnet attach web", "e2 attach failed allocnet attach refusing",
		"e2 detach done allocnet attach refusing (rollback)", "e2 detach done allocnet attach web (rollback)",
		"e4 attach done allocnet attach web", "e4 cleanup done allocnet detach web", "e4 detach done allocnet detach web",
		"e5 attach done allocnet attach web", "e5 cleanup done allocnet gc web (gc)", "e5 detach done allocnet gc web (gc)",
		"e6 attach done allocnet-cni peer", "e6 attach done allocnet-cni storage",
		"e6 detach done agent peer", "e6 detach done agent storage",
	}
	want[0] = "e3" + want[0]
	slices.Sort(want)
	if !slices.Equal(texts, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(texts, "\n"), strings.Join(want, "\n"))
	}
	for _, e := range all {
		if e.Seconds <= 0 || (e.Error == "") != (e.Outcome == "done") {
			t.Errorf("%+v", e)
		}
	}
	var streamed []string
	for e, err := range h.client.Events(t.Context(), api.EventQuery{Allocation: "e6"}) {
		if err != nil {
			t.Fatal(err)
		}
		streamed = append(streamed, fmt.Sprintf("%s %s %s %s %s", e.Allocation, e.Operation, e.Outcome, e.Caller, strings.Join(e.Networks, ",")))
	}
	slices.Sort(streamed)
	if !slices.Equal(streamed, want[len(want)-4:]) {
		t.Errorf("the agent streams\n%s", strings.Join(streamed, "\n"))
	}
	if some, _ := h.events("--allocation", "e1", "--network", "busy"); len(some) != 3 {
		t.Errorf("filtered: %q", some)
	}
	h.await("the follower has the failure", func() bool { return strings.Count(followed.String(), "rolled back") == 2 })
	if err := follower.Process.Signal(unix.SIGINT); err != nil {
		t.Fatal(err)
	}
	_ = follower.Wait() // the state has the signal
	if s, ok := follower.ProcessState.Sys().(interface{ Signal() unix.Signal }); !ok || s.Signal() != unix.SIGINT {
		t.Errorf("the follower ends with %s", follower.ProcessState)
	}
	if text := followed.String(); !strings.Contains(text, "attach failed") || !strings.Contains(text, "no such VLAN") || bytes.Contains([]byte(text), []byte("e1 ")) {
		t.Errorf("followed:\n%s", text)
	}
}
