// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package hook

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/containernetworking/cni/pkg/types"

	"github.com/allocnet/allocnet/selection"
	"github.com/allocnet/allocnet/state"
)

// chained returns an engine with networks a, b and c, each with plugins of its own.
// Unknown plugins may bring a default route, so they are attached one after the other.
func chained(t *testing.T) *memory {
	t.Helper()
	m := newMemory(t, func(c *Config) { c.Cleaner = cleanerFunc(nothingLeft) })
	for _, name := range []string{"a", "b", "c"} {
		m.network(t, name, "first-"+name, "second-"+name)
	}
	return m
}

func nothingLeft(_ context.Context, dead []state.Leftover) []error { return make([]error, len(dead)) }

var chainedRequest = Request{
	ID: "w1", Primary: &selection.Element{Name: "a", Interface: "eth0"}, Networks: []selection.Element{{Name: "b"}, {Name: "c"}},
}

// failWith has a call fail with the errors in turn, nil being success, and with the
// last one from then on.
func failWith(m *memory, call string, errs ...error) {
	m.exec.answer = func(_ context.Context, c fakeCall) (bool, []byte, error) {
		if c.String() != call || errs[0] == nil && len(errs) == 1 {
			return false, nil, nil
		}
		err := errs[0]
		if len(errs) > 1 {
			errs = errs[1:]
		}
		return err != nil, nil, err
	}
}

var (
	permanent = types.NewError(types.ErrInvalidNetworkConfig, "no such VLAN", "")
	transient = types.NewError(types.ErrTryAgainLater, "the lease server is busy", "")
)

// TestRollbackOrder: what was attached before a failure is removed in the reverse
// order, what failed before that, and what comes after it is not begun.
func TestRollbackOrder(t *testing.T) {
	for failing, want := range map[string]string{
		"ADD first-a eth0":  "ADD first-a eth0, DEL second-a eth0, DEL first-a eth0",
		"ADD second-a eth0": "ADD first-a eth0, ADD second-a eth0, DEL second-a eth0, DEL first-a eth0",
		"ADD first-b net1": "ADD first-a eth0, ADD second-a eth0, ADD first-b net1, " +
			"DEL second-b net1, DEL first-b net1, DEL second-a eth0, DEL first-a eth0",
		"ADD second-c net2": "ADD first-a eth0, ADD second-a eth0, ADD first-b net1, ADD second-b net1, ADD first-c net2, ADD second-c net2, " +
			"DEL second-c net2, DEL first-c net2, DEL second-b net1, DEL first-b net1, DEL second-a eth0, DEL first-a eth0",
	} {
		t.Run(failing, func(t *testing.T) {
			m := chained(t)
			failWith(m, failing, permanent)
			_, err := m.Setup(t.Context(), chainedRequest)
			var failed *Error
			if !errors.As(err, &failed) || !strings.Contains(failing, failed.Interface) || failed.Attempts != 1 || failed.Op != "attach" {
				t.Errorf("got %v, want the attachment that failed", err)
			}
			if got := strings.Join(m.exec.names(), ", "); got != want {
				t.Errorf("got %s\nwant %s", got, want)
			}
			if _, err := m.Status(t.Context(), "w1"); !errors.Is(err, state.ErrNotFound) {
				t.Errorf("on record: %v", err)
			}
			if m.namespaces.Exists(m.env.Config.NetnsDir + "/w1") {
				t.Error("the namespace is left")
			}
		})
	}
}

// TestRollbackThatFails: what cannot be undone is on record as pending, with the
// cause, and the error tells both.
func TestRollbackThatFails(t *testing.T) {
	m := chained(t)
	m.env.Config.Cleaner = cleanerFunc(func(_ context.Context, dead []state.Leftover) []error {
		return []error{fmt.Errorf("%d rules are left", len(dead[0].Suspects))}
	})
	stuck := errors.New("the device is busy")
	m.exec.answer = func(_ context.Context, c fakeCall) (bool, []byte, error) {
		switch c.String() {
		case "ADD first-c net2":
			return true, nil, permanent
		case "DEL second-b net1":
			return true, nil, stuck
		}
		return false, nil, nil
	}
	_, err := m.Setup(t.Context(), chainedRequest)
	if !errors.Is(err, stuck) || !strings.Contains(err.Error(), "no such VLAN") || !strings.Contains(err.Error(), "1 rules are left") {
		t.Errorf("got %v, want what failed, and what is not undone", err)
	}
	a, err := m.Status(t.Context(), "w1")
	if err != nil || len(a.Attachments) != 1 {
		t.Fatalf("on record are %+v, %v", a, err)
	}
	left := a.Attachments[0]
	if left.Interface != "net1" || left.Phase != state.Pending || !strings.Contains(left.Error, "the device is busy") {
		t.Errorf("got %+v", left)
	}
	if !m.namespaces.Exists(m.env.Config.NetnsDir + "/w1") {
		t.Error("the namespace of what is attached still is removed")
	}
	m.exec.answer = nil
	if err := m.Teardown(t.Context(), "w1"); err != nil {
		t.Errorf("Teardown: %v", err)
	}
	if ids := recorded(t, m.Engine); len(ids) > 0 || m.namespaces.Exists(m.env.Config.NetnsDir+"/w1") {
		t.Errorf("on record are %v", ids)
	}
}

// TestAttempts: an ADD that may succeed later is repeated, each time after a DEL.
func TestAttempts(t *testing.T) {
	const add, second, del = "ADD first-a eth0", "ADD second-a eth0", "DEL second-a eth0, DEL first-a eth0"
	success := add + ", " + second
	for name, test := range map[string]struct {
		failing  string
		errs     []error
		attempts int
		want     string
		fails    bool
	}{
		"at once":              {add, []error{nil}, 1, success, false},
		"the second time":      {add, []error{transient, nil}, 2, add + ", " + del + ", " + success, false},
		"the third time":       {add, []error{transient, transient, nil}, 3, add + ", " + del + ", " + add + ", " + del + ", " + success, false},
		"never":                {add, []error{transient}, 3, add + ", " + del + ", " + add + ", " + del + ", " + add + ", " + del, true},
		"not at all":           {add, []error{permanent}, 1, add + ", " + del, true},
		"not after the second": {add, []error{transient, permanent}, 2, add + ", " + del + ", " + add + ", " + del, true},
		"the last of a chain":  {second, []error{transient, nil}, 2, success + ", " + del + ", " + success, false},
		"a DEL between fails":  {del[:len("DEL second-a eth0")], []error{transient}, 1, success, false},
	} {
		t.Run(name, func(t *testing.T) {
			m := chained(t)
			failWith(m, test.failing, test.errs...)
			var steps []string
			a, err := m.Setup(t.Context(), Request{ID: "w1", Primary: chainedRequest.Primary, Notify: func(s Step) {
				steps = append(steps, fmt.Sprintf("%d of %d: %t", s.Attempt, s.Of, s.Err == nil))
			}})
			if (err != nil) != test.fails {
				t.Fatalf("got %v", err)
			}
			if got := strings.Join(m.exec.names(), ", "); got != test.want {
				t.Errorf("got %s\nwant %s", got, test.want)
			}
			if len(steps) != test.attempts || steps[len(steps)-1] != fmt.Sprintf("%d of 3: %t", test.attempts, !test.fails) {
				t.Errorf("steps %q, want %d", steps, test.attempts)
			}
			var failed *Error
			switch {
			case !test.fails && a.Attachments[0].Attempts != test.attempts:
				t.Errorf("recorded are %d attempts", a.Attachments[0].Attempts)
			case test.fails && (!errors.As(err, &failed) || failed.Attempts != test.attempts || !errors.Is(err, test.errs[0])):
				t.Errorf("got %v, want %d attempts and the first cause", err, test.attempts)
			}
		})
	}
}

// TestDelBetweenAttemptsFails: the next attempt is made all the same.
func TestDelBetweenAttemptsFails(t *testing.T) {
	m := chained(t)
	calls := 0
	m.exec.answer = func(_ context.Context, c fakeCall) (bool, []byte, error) {
		switch {
		case c.String() == "ADD first-a eth0":
			calls++
			return calls == 1, nil, transient
		case c.Verb == "DEL":
			return true, nil, permanent
		}
		return false, nil, nil
	}
	a, err := m.Setup(t.Context(), Request{ID: "w1", Primary: chainedRequest.Primary})
	if err != nil || a.Attachments[0].Attempts != 2 || calls != 2 {
		t.Errorf("got %+v, %v after %d attempts", a, err, calls)
	}
}

// TestObstacleEndsInThePause: what fails ADD and DEL alike, such as a plugin that is being installed, fails
// no further attempt once it is gone. An ADD on what the one before left would fail for good.
func TestObstacleEndsInThePause(t *testing.T) {
	m := chained(t)
	isGone, left := false, false
	m.env.Config.Pause = func(context.Context, time.Duration) error {
		isGone = true
		return nil
	}
	m.exec.answer = func(_ context.Context, c fakeCall) (bool, []byte, error) {
		switch {
		case c.String() == "ADD first-a eth0" && left:
			return true, nil, permanent
		case c.String() == "ADD first-a eth0":
			left = true
		case c.String() == "DEL first-a eth0":
			left = false
		case !isGone: // the second plugin of the chain, whose DEL is the first
			return true, nil, transient
		}
		return false, nil, nil
	}
	a, err := m.Setup(t.Context(), Request{ID: "w1", Primary: chainedRequest.Primary})
	if err != nil || a.Attachments[0].Attempts != 2 {
		t.Errorf("got %+v, %v after %v", a, err, m.exec.names())
	}
}

// TestPausesEnd: another failure ends the pause between attempts, and says so. DEL runs once.
func TestPausesEnd(t *testing.T) {
	m := newMemory(t, func(c *Config) { c.Cleaner = cleanerFunc(nothingLeft) })
	m.network(t, "a", "bridge")
	m.network(t, "b", "macvlan")
	paused := make(chan struct{})
	m.exec.answer = func(_ context.Context, c fakeCall) (bool, []byte, error) {
		switch c.String() {
		case "ADD bridge eth0":
			return true, nil, transient
		case "ADD macvlan net1":
			<-paused
			return true, nil, permanent
		}
		return false, nil, nil
	}
	m.env.Config.Pause = func(ctx context.Context, d time.Duration) error {
		if d < time.Second || d >= 2*time.Second {
			t.Errorf("a pause of %s", d)
		}
		close(paused)
		<-ctx.Done()
		return context.Cause(ctx)
	}
	_, err := m.Setup(t.Context(), Request{ID: "w1", Primary: &selection.Element{Name: "a", Interface: "eth0"}, Networks: []selection.Element{{Name: "b"}}})
	if err == nil || !strings.Contains(err.Error(), "no such VLAN") {
		t.Errorf("got %v, want the cause of the cancellation", err)
	}
	calls := m.exec.names()
	for _, call := range []string{"ADD bridge eth0", "DEL bridge eth0"} {
		if n := len(slices.DeleteFunc(slices.Clone(calls), func(c string) bool { return c != call })); n != 1 {
			t.Errorf("%d times %s: %v", n, call, calls)
		}
	}
}

// TestPartialResult: what the first plugins of a chain returned is on record before
// the next one runs, and DEL gets it, also from another process.
func TestPartialResult(t *testing.T) {
	for _, restarted := range []bool{false, true} {
		t.Run(fmt.Sprintf("restarted %t", restarted), func(t *testing.T) {
			m := chained(t)
			var result json.RawMessage
			m.exec.answer = func(_ context.Context, c fakeCall) (bool, []byte, error) {
				if c.String() != "ADD second-a eth0" {
					return false, nil, nil
				}
				r, err := m.env.Store.Read("w1")
				if err != nil || r.Attachments[0].Phase != state.Adding {
					t.Errorf("recorded is %+v, %v", r, err)
					return true, nil, permanent
				}
				result = r.Attachments[0].Result
				if restarted { // nothing is undone
					m.exec.answer = func(context.Context, fakeCall) (bool, []byte, error) { return true, nil, permanent }
				}
				return true, nil, permanent
			}
			if _, err := m.Setup(t.Context(), Request{ID: "w1", Primary: chainedRequest.Primary}); err == nil {
				t.Fatal("the chain did not fail")
			}
			if len(result) == 0 {
				t.Fatal("no result is on record while the second plugin runs")
			}
			m.exec.answer = nil
			dels := 0
			for _, c := range m.exec.calls {
				if c.Verb != "DEL" {
					continue
				}
				dels++
				var conf struct{ PrevResult json.RawMessage }
				if err := json.Unmarshal(c.Stdin, &conf); err != nil || !strings.Contains(string(conf.PrevResult), `"10.0.0.1/24"`) {
					t.Errorf("%s got the result %s, %v", c, conf.PrevResult, err)
				}
			}
			if want := map[bool]int{false: 2, true: 1}[restarted]; dels != want {
				t.Errorf("%d calls of DEL, want %d", dels, want)
			}
		})
	}
}

// TestResultThatIsNone: a plugin whose answer is no result fails its attachment.
func TestResultThatIsNone(t *testing.T) {
	for name, answer := range map[string]string{
		"no JSON":                "done",
		"nothing":                "",
		"an interface of none":   `{"cniVersion": "1.1.0", "ips": [{"address": "10.0.0.1/24", "interface": 7}]}`,
		"null for an interface":  `{"cniVersion": "1.1.0", "interfaces": [null]}`,
		"an address that is bad": `{"cniVersion": "1.1.0", "ips": [{"address": "ten"}]}`,
		"another version":        `{"cniVersion": "9.0.0"}`,
	} {
		t.Run(name, func(t *testing.T) {
			m := chained(t)
			m.exec.answer = func(_ context.Context, c fakeCall) (bool, []byte, error) {
				return c.String() == "ADD first-a eth0", []byte(answer), nil
			}
			var failed *Error
			if _, err := m.Setup(t.Context(), Request{ID: "w1", Primary: chainedRequest.Primary}); !errors.As(err, &failed) || failed.Network != "a" {
				t.Errorf("got %v, want *Error", err)
			}
			if ids := recorded(t, m.Engine); len(ids) > 0 {
				t.Errorf("on record are %v", ids)
			}
		})
	}
}
