// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Package ui looks at the status page with a real browser.
package ui

import (
	"bufio"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/internal/sandbox"
)

// binary is the program that serves the pages. /run is that of the sandbox.
const binary = "/run/bin/allocnet"

func TestMain(m *testing.M) {
	os.Exit(sandbox.MainDivided(m.Run, func() error { return sandbox.Install("/run/bin", "allocnet") }))
}

// command is an `allocnet ui` that runs.
type command struct{ url string }

// run starts the command, which has to end by SIGINT with the exit code 0 when the test ends.
func run(t testing.TB, socket string) *command {
	t.Helper()
	cmd := exec.Command(binary, "ui", "--socket", socket)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(unix.SIGINT) // Wait has the error
		if err := cmd.Wait(); err != nil {
			t.Errorf("allocnet ui: %v", err)
		}
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return &command{strings.TrimSpace(line)}
}

// enter opens the URL, and returns that of the overview.
func (b *browser) enter(c *command) (base string) {
	b.Helper()
	b.do(chromedp.Navigate(c.url), chromedp.Click(chromedp.CSS("a")), chromedp.WaitVisible(chromedp.CSS("#overview")))
	return get(b, chromedp.Location())
}
