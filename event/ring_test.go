// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package event

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/allocation"
	"github.com/allocnet/allocnet/hook"
	"github.com/allocnet/allocnet/internal/files"
)

// writerVariable has the test binary append events to a directory, as another process.
const writerVariable = "ALLOCNET_TEST_EVENTS"

func TestMain(m *testing.M) {
	if dir := os.Getenv(writerVariable); dir != "" {
		r := testRing(dir)
		r.timeout = time.Minute // each has to arrive
		for i := range 100 {
			if err := r.append(Event{Allocation: fmt.Sprintf("a%d", os.Getpid()), Attempts: i + 1}); err != nil {
				panic(err)
			}
		}
		return
	}
	os.Exit(m.Run())
}

// testRing is a ring whose rotations are soon.
func testRing(stateDir string) *ring {
	r := newRing(stateDir)
	r.full, r.kept = 2<<10, 1<<20
	return r
}

func add(t *testing.T, r *ring, events ...Event) {
	t.Helper()
	for _, e := range events {
		if err := r.append(e); err != nil {
			t.Fatal(err)
		}
	}
}

// all returns what a new reader reads.
func all(t *testing.T, r *ring) []Event {
	t.Helper()
	return next(t, &reader{ring: r})
}

func next(t *testing.T, r *reader) []Event {
	t.Helper()
	found, err := r.read()
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// requireConsecutive fails the test unless the indexes are first, first+1 and so on.
func requireConsecutive(t *testing.T, events []Event, first uint64, count int) {
	t.Helper()
	if len(events) != count {
		t.Errorf("%d events, want %d", len(events), count)
	}
	for i, e := range events {
		if e.Index != first+uint64(i) {
			t.Fatalf("event %d has index %d, want %d", i, e.Index, first+uint64(i))
		}
	}
}

// TestProcesses: several processes and goroutines append, with many rotations, and each
// event arrives once, in the order of its process.
func TestProcesses(t *testing.T) {
	dir := t.TempDir()
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			cmd := exec.Command(os.Args[0])
			cmd.Env = append(os.Environ(), writerVariable+"="+dir)
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		})
		group.Go(func() {
			r := testRing(dir)
			r.timeout = time.Minute
			if err := r.append(Event{Allocation: "goroutine"}); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	found := all(t, testRing(dir))
	requireConsecutive(t, found, 1, 404)
	last := map[string]int{}
	for _, e := range found {
		if e.Attempts > 0 && e.Attempts != last[e.Allocation]+1 {
			t.Fatalf("%s: event %d after %d", e.Allocation, e.Attempts, last[e.Allocation])
		}
		last[e.Allocation] = e.Attempts
	}
	for path, mode := range map[string]fs.FileMode{"": 0o700, currentFile: 0o600, previousFile: 0o600} {
		if info, err := os.Stat(filepath.Join(dir, folder, path)); err != nil || info.Mode().Perm() != mode {
			t.Errorf("%s: %v, %v, want mode %#o", path, info, err, mode)
		}
	}
}

// TestTornTail: what a killed process left of a line hides no other event.
func TestTornTail(t *testing.T) {
	for name, torn := range map[string]string{
		"half a line": `{"version":1,"index":9,"ti`, "nothing but a line": "{", "zeros": "\x00\x00\x00",
		"long": strings.Repeat("x", 5*maxLine), "lines that are none": strings.Repeat("x\n", 5*maxLine),
	} {
		t.Run(name, func(t *testing.T) {
			r := newRing(t.TempDir())
			add(t, r, Event{}, Event{})
			file, err := os.OpenFile(r.path(currentFile), os.O_WRONLY|os.O_APPEND, 0)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := file.WriteString(torn); err != nil {
				t.Fatal(err)
			}
			follower := &reader{ring: r}
			requireConsecutive(t, next(t, follower), 1, 2)
			add(t, r, Event{})
			requireConsecutive(t, next(t, follower), 3, 1)
			requireConsecutive(t, all(t, r), 1, 3)
		})
	}
}

// TestRotation: readers lose nothing, whether they read between two rotations or not; a
// rotation that was killed is done again.
func TestRotation(t *testing.T) {
	r := testRing(t.TempDir())
	each, some, idle := &reader{ring: r}, &reader{ring: r}, &reader{ring: r}
	var eachFound, someFound []Event
	for i := range 100 {
		add(t, r, Event{Allocation: "a"})
		eachFound = append(eachFound, next(t, each)...)
		if i%40 == 0 { // several rotations later
			someFound = append(someFound, next(t, some)...)
		}
	}
	requireConsecutive(t, eachFound, 1, 100)
	requireConsecutive(t, append(someFound, next(t, some)...), 1, 100)
	requireConsecutive(t, next(t, idle), 1, 100)
	current, err := os.ReadFile(r.path(currentFile))
	if err != nil {
		t.Fatal(err)
	}
	if err := r.rotate(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(r.path(currentFile), current, 0o600); err != nil { // as if killed before it was removed
		t.Fatal(err)
	}
	requireConsecutive(t, all(t, r), 1, 100)
	if err := r.rotate(); err != nil {
		t.Fatal(err)
	}
	requireConsecutive(t, next(t, each), 101, 0)
	add(t, r, Event{})
	requireConsecutive(t, next(t, each), 101, 1)
	requireConsecutive(t, all(t, r), 1, 101)
}

// TestBounds: the files keep their sizes, whatever the events have, and of several jobs
// the one with too many events loses its oldest.
func TestBounds(t *testing.T) {
	r := newRing(t.TempDir())
	r.full, r.kept = 16<<10, 64<<10
	hostile := strings.Repeat("\x1b[2J\x00é", 10_000)
	for i := range 300 {
		add(t, r, Event{Allocation: fmt.Sprintf("crash-%d", i), Job: "crash", Namespace: "default", Networks: []string{hostile, hostile}, RemovedBy: slices.Repeat([]allocation.Remover{{Name: hostile, Parent: hostile}}, 10), Error: hostile})
		if i == 0 || i == 150 {
			add(t, r, Event{Allocation: "web-1"}, Event{Allocation: "db-1", Job: "db", Namespace: "prod"})
		}
	}
	for name, limit := range map[string]int64{currentFile: r.full + maxLine, previousFile: r.kept} {
		if info, err := os.Stat(r.path(name)); err != nil || info.Size() > limit {
			t.Errorf("%s: %v, %v, want at most %d bytes", name, info, err, limit)
		}
	}
	counts := map[string]int{}
	for _, e := range all(t, r) {
		counts[e.Allocation]++
		if e.Job == "crash" && !strings.HasPrefix(e.Error, "\x1b[2J") {
			t.Errorf("error of %d: %q", e.Index, e.Error)
		}
	}
	if counts["web-1"] != 2 || counts["db-1"] != 2 || counts["crash-299"] != 1 || counts["crash-0"] != 0 {
		t.Errorf("%v", counts)
	}
}

// TestManyOwners: events of more allocations than fit are not all dropped.
func TestManyOwners(t *testing.T) {
	var lines []byte
	for i := range 100 {
		line, err := lineOf(Event{Index: uint64(i + 1), Allocation: fmt.Sprintf("allocation-%03d", i)})
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, line...)
	}
	size := int64(len(lines)) / 2
	kept := thin(lines, size)
	if int64(len(kept)) > size || len(kept) < len(lines)/2-200 || !bytes.HasSuffix(lines, kept) {
		t.Errorf("%d bytes of %d", len(kept), len(lines))
	}
	if kept := thin(lines, 1); lastIndex(kept) != 100 {
		t.Errorf("the newest is lost: %q", kept)
	}
}

// TestLineLength of an event whose fields are as long and as expensive as they can be.
func TestLineLength(t *testing.T) {
	worst := strings.Repeat("\x01", 10_000)
	e := Event{
		Caller: worst, Allocation: worst, Namespace: worst, Job: worst, Task: worst, Interface: worst,
		Networks: []string{worst, worst, worst, worst, worst, worst, worst, worst, worst, worst}, Error: worst,
	}
	if line, err := lineOf(e); err != nil || len(line) > maxLine {
		t.Errorf("%d bytes, %v", len(line), err)
	}
	if text := shorten(strings.Repeat("é", 100), 20); text != "éééééééé..." {
		t.Errorf("%q", text)
	}
}

// TestFormat is the format of the files and of the agent's API.
func TestFormat(t *testing.T) {
	full := Event{
		Version: 1, Index: 2, Time: time.Unix(1, 0).UTC(), Operation: "attach", Outcome: "done", Reason: "gc", Caller: "agent", Allocation: "a", Namespace: "n",
		Job: "j", Task: "t", Networks: []string{"web"}, Interface: "eth0", Attempts: 3, Objects: 4, Missing: []string{"m"},
		RemovedBy: []allocation.Remover{{Name: "nft", PID: 6, Parent: "sh"}}, Pool: "p", Seconds: 5.5, Error: "e",
	}
	for _, test := range []struct {
		event Event
		want  string
	}{
		{full, `{"version":1,"index":2,"time":"1970-01-01T00:00:01Z","operation":"attach","outcome":"done","reason":"gc","caller":"agent","allocation":"a",` +
			`"namespace":"n","job":"j","task":"t","networks":["web"],"interface":"eth0","attempts":3,"objects":4,"missing":["m"],` +
			`"removedBy":[{"name":"nft","pid":6,"parent":"sh"}],"seconds":5.5,"pool":"p","error":"e"}`},
		{Event{Index: 3}, `{"version":1,"index":3,"time":"0001-01-01T00:00:00Z","operation":"","outcome":"","caller":"","seconds":0}`},
	} {
		line, err := lineOf(test.event)
		if err != nil || string(line) != test.want+"\n" {
			t.Errorf("%v\ngot  %swant %s", err, line, test.want)
		}
		test.event.Version = 1
		if read, ok := parse(line); !ok || !reflect.DeepEqual(read, test.event) {
			t.Errorf("read %+v", read)
		}
	}
}

// TestNotRecorded: an observation that cannot be kept is logged, and changes nothing;
// then there is no attempt for a while.
func TestNotRecorded(t *testing.T) {
	for name, test := range map[string]struct {
		prepare func(t *testing.T, dir string)
		want    string
	}{
		"another process holds the lock": {func(t *testing.T, dir string) {
			if err := os.Mkdir(dir, 0o700); err != nil {
				t.Fatal(err)
			}
			locked, err := os.Open(dir)
			if err != nil {
				t.Fatal(err)
			}
			if err := unix.Flock(int(locked.Fd()), unix.LOCK_EX); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { files.CloseLocked(locked) })
		}, "is locked by another process"},
		"the directory is a file": {func(t *testing.T, dir string) {
			if err := os.WriteFile(dir, nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}, "not a directory"},
		"no state directory": {func(t *testing.T, dir string) {
			if err := os.Remove(filepath.Dir(dir)); err != nil {
				t.Fatal(err)
			}
		}, "no such file"},
	} {
		t.Run(name, func(t *testing.T) {
			var log bytes.Buffer
			state := t.TempDir()
			r := NewRecorder(state, "allocnet", hclog.New(&hclog.LoggerOptions{Output: &log}))
			r.ring.timeout = time.Millisecond
			test.prepare(t, r.ring.dir)
			r.Observe(hook.Observation{Op: hook.OpAttach})
			r.Observe(hook.Observation{Op: hook.OpAttach})
			if text := log.String(); strings.Count(text, "events are not recorded") != 1 || !strings.Contains(text, test.want) {
				t.Errorf("log: %s", text)
			}
		})
	}
}

// TestPoolEvents: those of a pool have its name and the kind of the problem, and displace those of no other.
func TestPoolEvents(t *testing.T) {
	r := NewRecorder(t.TempDir(), "agent", hclog.NewNullLogger())
	r.Pool("p", "twin", "a copy\nof this machine", false)
	r.Pool("p", "twin", "", true)
	var got []string
	for _, e := range all(t, r.ring) {
		got = append(got, fmt.Sprint(e.Operation, " ", e.Outcome, " ", e.Reason, " ", e.Pool, " ", e.Error))
	}
	if want := []string{"pool failed twin p a copy; of this machine", "pool done twin p "}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if owner := ownerOf([]byte(`{"pool": "p"}`)).owner(); owner == ownerOf([]byte(`{}`)).owner() {
		t.Errorf("the owner is %q, want one of its own", owner)
	}
}

// TestRecorder: an event has what was observed.
func TestRecorder(t *testing.T) {
	dir := t.TempDir()
	r := NewRecorder(dir, "allocnet-cni", hclog.NewNullLogger())
	r.Observe(hook.Observation{
		Op: hook.OpAttach, Allocation: "a", Identity: hook.Request{}.Identity, Task: "t", Network: "web", Interface: "eth0",
		Attempts: 3, Took: 1500 * time.Millisecond, Err: errors.New("no\n  master\n"),
	})
	found := all(t, r.ring)
	if len(found) != 1 || found[0].Time.IsZero() {
		t.Fatalf("%+v", found)
	}
	found[0].Time = time.Time{}
	want := Event{
		Version: 1, Index: 1, Operation: "attach", Outcome: "failed", Caller: "allocnet-cni", Allocation: "a", Task: "t",
		Networks: []string{"web"}, Interface: "eth0", Attempts: 3, Seconds: 1.5, Error: "no; master",
	}
	if got := fmt.Sprintf("%+v", found[0]); got != fmt.Sprintf("%+v", want) {
		t.Errorf("got  %s\nwant %+v", got, want)
	}
	if found[0].Took() != 1500*time.Millisecond {
		t.Errorf("took %s", found[0].Took())
	}
}
