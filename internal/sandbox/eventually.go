// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package sandbox

import (
	"strings"
	"testing"
	"time"
)

// never bounds a wait. It is no measure of speed: no machine is so loaded that it needs
// as much.
const never = 5 * time.Minute

// Eventually waits for a state. Otherwise the test fails with the explanations.
func Eventually(t testing.TB, what string, so func() bool, explanations ...func() string) {
	t.Helper()
	deadline := time.Now().Add(never)
	for look := time.Now(); !so(); look = time.Now() {
		if time.Now().Before(deadline) {
			time.Sleep(PauseAfter(time.Since(look)))
			continue
		}
		text := ""
		for _, explain := range explanations {
			text += "\n" + explain()
		}
		t.Fatalf("waited in vain: %s%s", what, text)
	}
}

// PauseAfter is how long to wait before the next look at a state, after one that took so long. Who waits leaves most of the
// processors to what is waited for.
func PauseAfter(look time.Duration) time.Duration {
	return min(max(5*time.Millisecond, 3*look), time.Second)
}

// RequireNothing waits until nothing is left of what list names: processes that
// are about to end still have it. A test that has failed does not wait.
func RequireNothing(t testing.TB, what string, list func() string) {
	t.Helper()
	left := list()
	if t.Failed() && left != "" {
		t.Logf("%s is left:\n%s", what, left)
		return
	}
	Eventually(t, "no "+what+" is left", func() bool {
		left = list()
		return left == ""
	}, func() string { return left })
}

// RequireNoPlugins waits until the processes of all CNI calls have ended: those
// that were killed take a moment.
func RequireNoPlugins(t testing.TB) {
	t.Helper()
	var left []string
	Eventually(t, "the processes of plugins end", func() bool {
		left = PluginProcesses()
		return left == nil
	}, func() string { return "left: " + strings.Join(left, ", ") })
}
