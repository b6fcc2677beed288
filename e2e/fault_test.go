// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/hook"
	"github.com/allocnet/allocnet/internal/fakecni"
	"github.com/allocnet/allocnet/internal/sandbox"
)

func TestThirdNetworkFails(t *testing.T) {
	h := newHost(t)
	log := filepath.Join(t.TempDir(), "calls")
	h.fake("fake", fakecni.Script{Log: log, Verbs: map[string]fakecni.Behaviour{"ADD": {Code: 7, Msg: "the fabric has no such VLAN"}}})
	h.refuse(1, []string{`network "fake" as net2`, "the fabric has no such VLAN"},
		"attach", "f1", "--primary", "web", "--networks", "storage,fake,peer", "--publish", "8080:80")
	if got := read(t, log); got != "ADD net2\nDEL net2\n" {
		t.Errorf("calls of the plugin that failed for good:\n%s", got)
	}
}

func TestFailsTwice(t *testing.T) {
	h := newHost(t)
	dir := t.TempDir()
	h.fake("fake", fakecni.Script{Log: dir + "/calls", Verbs: map[string]fakecni.Behaviour{
		"ADD": {Code: 5, Msg: "busy", FailTimes: 2, Counter: dir + "/counter"},
	}})
	o := h.allocnet("attach", "f2", "--json", "--primary", "web", "--networks", "fake,storage")
	if o.code != 0 {
		t.Fatalf("exit code %d\n%s", o.code, o.stderr)
	}
	var a hook.Allocation
	if err := json.Unmarshal([]byte(o.stdout), &a); err != nil {
		t.Fatal(err)
	}
	if a.Attachments[1].Attempts != 3 || a.Attachments[2].Attempts != 1 {
		t.Errorf("attempts are %d and %d, want 3 and 1", a.Attachments[1].Attempts, a.Attachments[2].Attempts)
	}
	if got := read(t, dir+"/calls"); got != "ADD net1\nDEL net1\nADD net1\nDEL net1\nADD net1\n" {
		t.Errorf("calls:\n%s", got)
	}
	pauses := regexp.MustCompile(`"in":"([^"]+)"`).FindAllStringSubmatch(o.stderr, -1)
	if len(pauses) != 2 {
		t.Fatalf("%d pauses are logged, want 2:\n%s", len(pauses), o.stderr)
	}
	for _, pause := range pauses {
		if d, err := time.ParseDuration(pause[1]); err != nil || d < time.Second || d > 2*time.Second {
			t.Errorf("pause %s, want 1 to 2 s", pause[1])
		}
	}
	h.must("detach", "f2")
}

func TestCancelledInPause(t *testing.T) {
	h := newHost(t)
	log := filepath.Join(t.TempDir(), "calls")
	h.fake("fake", fakecni.Script{Log: log, Verbs: map[string]fakecni.Behaviour{"ADD": {Code: 11, Msg: "busy"}}})
	cmd := h.command("attach", "f3", "--primary", "web", "--networks", "fake")
	warned := listen(cmd, "trying again")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	warned.await(t)
	if err := cmd.Process.Signal(unix.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); cmd.ProcessState.ExitCode() != 1 {
		t.Errorf("ended with %v", err)
	}
	for _, word := range []string{"aborted", "busy"} {
		if !strings.Contains(warned.all.String(), word) {
			t.Errorf("the error does not say %q:\n%s", word, warned.all.String())
		}
	}
	if got := read(t, log); strings.Count(got, "ADD") != 1 {
		t.Errorf("it went on after the signal:\n%s", got)
	}
}

// signalOn closes seen when a text is written to it.
type signalOn struct {
	text string
	seen chan struct{}
	all  strings.Builder
}

func (s *signalOn) Write(p []byte) (int, error) {
	before := strings.Contains(s.all.String(), s.text)
	s.all.Write(p)
	if !before && strings.Contains(s.all.String(), s.text) {
		close(s.seen)
	}
	return len(p), nil
}

// listen reads the error output of a command that has not been started.
func listen(cmd *exec.Cmd, text string) *signalOn {
	s := &signalOn{text: text, seen: make(chan struct{})}
	cmd.Stderr = s
	return s
}

// await waits for the text.
func (s *signalOn) await(t *testing.T) {
	t.Helper()
	sandbox.Eventually(t, "it says "+strconv.Quote(s.text), func() bool {
		select {
		case <-s.seen:
			return true
		default:
			return false
		}
	})
}

func TestPluginMisbehaves(t *testing.T) {
	for name, test := range map[string]struct {
		behaviour fakecni.Behaviour
		flags     []string
		words     []string
	}{
		"hangs":                {fakecni.Behaviour{Hang: true}, []string{"--call-timeout", "5s"}, []string{"fakecni did not answer ADD within 5s"}},
		"prints garbage":       {fakecni.Behaviour{Output: "garbage"}, nil, []string{"net1", "fakecni"}},
		"prints 100 MB":        {fakecni.Behaviour{Output: "0123456789", Repeat: 10 << 20}, nil, []string{"printed more than 4 MiB"}},
		"dies by a signal":     {fakecni.Behaviour{Signal: int(unix.SIGKILL)}, nil, []string{"3 attempts", "signal: killed"}},
		"result of no version": {fakecni.Behaviour{Output: `{"cniVersion": "9.9.9"}`}, nil, []string{"9.9.9"}},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHost(t)
			h.fake("fake", fakecni.Script{Verbs: map[string]fakecni.Behaviour{"ADD": test.behaviour}})
			h.refuse(1, test.words, append([]string{"attach", "m1", "--primary=", "--networks", "fake,storage"}, test.flags...)...)
			sandbox.RequireNoPlugins(t)
		})
	}
}

func TestDELFails(t *testing.T) {
	h := newHost(t)
	dir := t.TempDir()
	h.fake("fake", fakecni.Script{Verbs: map[string]fakecni.Behaviour{
		"DEL": {Code: 7, Msg: "cannot", FailTimes: 1, Counter: dir + "/counter"},
	}})
	h.attach("d1", "--primary", "web", "--networks", "storage,fake")
	h.refuse(1, []string{`detach network "fake" as net2`, "cannot"}, "detach", "d1")
	out := h.must("status", "d1")
	for _, word := range []string{"pending", "attempt 1:", "cannot"} {
		if !strings.Contains(out, word) {
			t.Errorf("status does not say %q:\n%s", word, out)
		}
	}
	if strings.Contains(out, "storage") {
		t.Errorf("one that was detached is still there:\n%s", out)
	}
	h.must("detach", "d1")
}

// TestOrphan kills allocnet while a plugin runs. The plugin goes on; a teardown
// that comes meanwhile must wait for it, or it would clean up too early.
func TestOrphan(t *testing.T) {
	h := newHost(t)
	dir := t.TempDir()
	h.fake("fake", fakecni.Script{Log: dir + "/calls", Verbs: map[string]fakecni.Behaviour{
		"ADD": {Mark: dir + "/begun", Await: dir + "/go"},
	}})
	cmd := h.command("attach", "o1", "--primary", "web", "--networks", "fake,storage")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	await(t, dir+"/begun")
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // killed
	detach := h.command("detach", "o1", "--log-level", "debug")
	waiting := listen(detach, "waiting for plugins that a killed process started")
	if err := detach.Start(); err != nil {
		t.Fatal(err)
	}
	waiting.await(t) // DEL has to wait from here on
	if calls := read(t, dir+"/calls"); strings.Contains(calls, "DEL") {
		t.Errorf("DEL came while ADD was running:\n%s", calls)
	}
	sandbox.WriteFile(t, dir+"/go", "")
	if err := detach.Wait(); err != nil {
		t.Errorf("detach: %v", err)
	}
}

// TestLongKilledAnywhere kills allocnet after increasing times, until it exits before the
// kill, and tears down each time.
func TestLongKilledAnywhere(t *testing.T) {
	h := newHost(t)
	args := []string{"--primary", "web", "--networks", "storage,peer,vlan", "--publish", "8080:80/tcp"}
	for name, sweep := range map[string]struct{ prepare, kill []string }{
		"attach": {nil, append([]string{"attach", "k1"}, args...)},
		"detach": {append([]string{"attach", "k1"}, args...), []string{"detach", "k1"}},
		"run":    {nil, append(append([]string{"run", "--id", "k1"}, args...), "--", "true")},
	} {
		t.Run(name, func(t *testing.T) {
			h := *h
			h.t = t
			prepare := func() {
				if sweep.prepare != nil {
					h.must(sweep.prepare...)
				}
			}
			h.killAnywhere(prepare, sweep.kill, func(string) {
				h.must("detach", "k1")
				h.requireNoState()
			})
			sandbox.RequireSame(t, h.before)
		})
	}
}

// killAnywhere lets allocnet run to its end once, and kills it at instants that are spread over as long as that took, until it
// ends before it is killed. If that is too early, because the machine is less busy by now, it begins again.
func (h *host) killAnywhere(prepare func(), args []string, then func(when string)) {
	h.t.Helper()
	const instants = 25
	prepare()
	_, length := h.killAfter(time.Hour, args...)
	then("not killed")
	kills := 0
	for wait := time.Duration(0); ; wait += max(length/instants, time.Millisecond) {
		prepare()
		killed, took := h.killAfter(wait, args...)
		then(fmt.Sprintf("killed after %v of %v", wait, length))
		switch {
		case killed:
			kills++
		case kills >= 5:
			return
		default:
			wait, length = 0, took
		}
	}
}

// killAfter tells whether allocnet had to be killed, and when it ended.
func (h *host) killAfter(wait time.Duration, args ...string) (bool, time.Duration) {
	h.t.Helper()
	cmd := h.command(args...)
	began := time.Now()
	if err := cmd.Start(); err != nil {
		h.t.Fatal(err)
	}
	timer := time.AfterFunc(wait, func() { _ = cmd.Process.Kill() })
	defer timer.Stop()
	_ = cmd.Wait() // killed or done
	took := time.Since(began)
	if cmd.ProcessState.ExitCode() > 0 {
		h.t.Errorf("%s: %s", strings.Join(args, " "), cmd.ProcessState)
	}
	return !cmd.ProcessState.Exited(), took
}

func TestRun(t *testing.T) {
	h := newHost(t)
	for name, test := range map[string]struct {
		code int
		args []string
	}{
		"exit code":     {7, []string{"sh", "-c", "exit 7"}},
		"success":       {0, []string{"ip", "link", "show", "net1"}},
		"not found":     {127, []string{"/nonexistent"}},
		"no executable": {126, []string{"/etc/passwd"}},
		"killed":        {128 + 9, []string{"sh", "-c", "kill -9 $$"}},
	} {
		t.Run(name, func(t *testing.T) {
			o := h.allocnet(append([]string{"run", "--primary", "web", "--networks", "storage", "--"}, test.args...)...)
			if o.code != test.code {
				t.Errorf("exit code %d, want %d\n%s", o.code, test.code, o.stderr)
			}
		})
	}
	h.refuse(125, []string{"cannot"}, "run", "--primary", h.failing("cannot"), "--", "true")
	h.refuse(2, []string{"no command"}, "run", "--primary", "web")
}

func (h *host) failing(msg string) string {
	h.fake("failing", fakecni.Script{Verbs: map[string]fakecni.Behaviour{"ADD": {Code: 7, Msg: msg}}})
	return "failing"
}

func TestRunPassesSignalsOn(t *testing.T) {
	h := newHost(t)
	mark := filepath.Join(t.TempDir(), "mark")
	cmd := h.command("run", "--primary", "web", "-p", "8080:80", "--", "sh", "-c",
		"trap 'exit 42' TERM; echo > "+mark+"; while :; do sleep 0.05; done")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	await(t, mark)
	if err := cmd.Process.Signal(unix.SIGTERM); err != nil {
		t.Fatal(err)
	}
	err := cmd.Wait()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 42 {
		t.Errorf("ended with %v, want what the command did with the signal: 42", err)
	}
}

func read(t testing.TB, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
