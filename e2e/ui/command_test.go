// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package ui

import (
	"bufio"
	"errors"
	"io"
	"net"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/allocnet/allocnet/ui/uitest"
)

// TestTerminal: on a terminal, Enter prints another URL, and Ctrl-C ends the command without an
// error.
func TestTerminal(t *testing.T) {
	cmd := exec.Command("script", "--quiet", "--return", "--command", "exec "+binary+" ui --socket "+uitest.Start(t).Socket, "/dev/null")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines, told := bufio.NewScanner(out), ""
	url := func() string {
		t.Helper()
		for lines.Scan() {
			told += lines.Text() + "\n"
			if found := regexp.MustCompile(`http://127\.0\.0\.1:\d+/\?token=\w+`).FindString(lines.Text()); found != "" {
				return found
			}
		}
		t.Fatalf("no URL: %s", told)
		return ""
	}
	first := url()
	if _, err := io.WriteString(in, "\n"); err != nil {
		t.Fatal(err)
	}
	if second := url(); first == second {
		t.Errorf("Enter prints %s again", first)
	}
	if _, err := io.WriteString(in, "\x03"); err != nil {
		t.Fatal(err)
	}
	for lines.Scan() {
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
	if !strings.Contains(told, "Enter prints another URL") {
		t.Errorf("it says %q", told)
	}
}

// TestRefused: without an agent, and with a port that cannot be had, the command says so at
// once.
func TestRefused(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close() // nothing was written
	_, port, err := net.SplitHostPort(taken.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	socket := uitest.Start(t).Socket
	for _, test := range []struct {
		args, words string
		code        int
	}{
		{"--socket /nonexistent/agent.sock", "the agent does not answer", 1},
		{"--port " + port + " --socket " + socket, "address already in use", 1},
		{"--port 70000", "port", 2},
		{"now", "argument", 2},
	} {
		out, err := exec.Command(binary, append([]string{"ui"}, strings.Fields(test.args)...)...).CombinedOutput()
		var exit *exec.ExitError
		if !errors.As(err, &exit) || exit.ExitCode() != test.code || !strings.Contains(string(out), test.words) {
			t.Errorf("%s: %v, want exit code %d with %q: %s", test.args, err, test.code, test.words, out)
		}
	}
}
