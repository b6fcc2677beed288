// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package local

import (
	"bufio"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

const (
	// killConfig has 29 addresses in one block and more in another, and no cooldown.
	killConfig = `"cooldown": "0s", "ranges": [{"subnet": "fd00::/122"}, {"subnet": "10.0.0.0/27"}]`
	// killDir is the environment variable that makes this test binary the process to be killed.
	killDir = "ALLOCNET_TEST_KILL_DIR"
)

// TestKilled is the process that is killed: it takes and releases addresses, and says so. It
// says what it gives up before it does, and what it takes after.
func TestKilled(t *testing.T) {
	dir := os.Getenv(killDir)
	if dir == "" {
		return // this process is not to be killed
	}
	h := newHostIn(t, dir, killConfig)
	h.now = time.Now
	var held []string
	for i := 0; ; i++ {
		if len(held) > rand.IntN(20) {
			fmt.Println("release", held[0])
			h.release(held[0])
			held = held[1:]
			continue
		}
		id := fmt.Sprintf("%d-%d", os.Getpid(), i)
		got := h.take(id)
		fmt.Println("taken", id, got)
		held = append(held, id)
	}
}

// runAndKill runs the process, and kills it after a time. It returns what it printed.
func runAndKill(t *testing.T, dir string, after time.Duration) []string {
	t.Helper()
	child := exec.Command(os.Args[0], "-test.run=^TestKilled$")
	child.Env = append(os.Environ(), killDir+"="+dir)
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	output := bufio.NewReader(out)
	lines := []string{}
	if first, err := output.ReadString('\n'); err == nil { // it works by now
		lines = append(lines, first)
	}
	timer := time.AfterFunc(after, func() { _ = child.Process.Kill() })
	defer timer.Stop()
	rest, _ := io.ReadAll(output)
	_ = child.Wait() // it was killed
	return append(lines, strings.SplitAfter(string(rest), "\n")...)
}

// TestKill: however a process ends, the attachments that it served have their addresses, no two
// have the same, and when all are released no address is missing.
func TestKill(t *testing.T) {
	dir := t.TempDir()
	h := newHostIn(t, dir, killConfig)
	h.now = time.Now
	held := map[string]string{}
	for range 25 {
		for _, text := range runAndKill(t, dir, rand.N(20*time.Millisecond)) {
			var id, v6, v4 string
			switch n, _ := fmt.Sscanf(text, "taken %s %s %s\n", &id, &v6, &v4); {
			case strings.HasPrefix(text, "release "):
				delete(held, strings.TrimSpace(strings.TrimPrefix(text, "release ")))
			case n == 3 && strings.HasSuffix(text, "\n"):
				requireFree(t, held, id, v6, v4)
				held[id] = v6 + " " + v4
			case text != "" && strings.HasSuffix(text, "\n"):
				t.Fatalf("the process says %q", text)
			}
		}
		for id, want := range held {
			h.requireTake(id, want)
		}
		releaseUnknown(t, h, held)
	}
	if len(held) == 0 {
		t.Error("no attachment survived a kill: the test proves nothing")
	}
	requireAllFree(t, h)
}

// requireFree requires that no attachment has the addresses.
func requireFree(t *testing.T, held map[string]string, id, v6, v4 string) {
	t.Helper()
	for other, addresses := range held {
		if strings.HasPrefix(addresses, v6+" ") || strings.HasSuffix(addresses, " "+v4) {
			t.Errorf("%s gets %s and %s, and %s has %s", id, v6, v4, other, addresses)
		}
	}
}

// releaseUnknown releases what the killed process did not say that it had taken, as a runtime
// does whose ADD did not return, and so many of the others that there is room.
func releaseUnknown(t *testing.T, h *host, held map[string]string) {
	t.Helper()
	leases, err := h.Leases(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range leases {
		if !strings.Contains(l.Owner.ContainerID, "-") || l.Owner.Interface != "eth0" {
			t.Errorf("there is a lease of %+v", l.Owner)
		}
		if _, ok := held[l.Owner.ContainerID]; !ok || len(held) > 5 {
			h.release(l.Owner.ContainerID)
			delete(held, l.Owner.ContainerID)
		}
	}
}

// requireAllFree releases all, and requires that every address can be given out.
func requireAllFree(t *testing.T, h *host) {
	t.Helper()
	leases, err := h.Leases(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range leases {
		h.release(l.Owner.ContainerID)
	}
	counts, err := h.Count(t.Context(), h.blocks)
	if err != nil {
		t.Fatal(err)
	}
	for i, c := range counts {
		if want := h.config.Capacity(h.blocks[i]); c.Free != want || c.Used+c.Cooling > 0 {
			t.Errorf("of block %s: %+v, want %d free", h.blocks[i], c, want)
		}
	}
	var all []string
	for i := range h.config.Capacity(h.blocks[1]) {
		all = append(all, h.take(fmt.Sprint("last", i)))
	}
	for _, got := range all {
		if strings.Contains(got, "no free address") {
			t.Errorf("not all addresses can be given out: %s", got)
		}
	}
}
