// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package shim

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/internal/version"
)

// What is used of the agent's API and of HTTP; a test holds it to package api.
const (
	defaultSocket = "/run/allocnet/agent.sock"
	path          = "/v1/cni"
	headerBuild   = "Allocnet-Build"

	statusContinue  = 100
	statusOK        = 200
	statusNoContent = 204
)

// unhandled are the answers of an agent that did nothing: it denies the caller access, takes no body as large, has no plugin,
// is stopping or is overloaded.
var unhandled = []int{403, 413, 501, 503}

// parameters are those of the CNI specification.
var parameters = []string{"CNI_ARGS", "CNI_COMMAND", "CNI_CONTAINERID", "CNI_IFNAME", "CNI_NETNS", "CNI_NETNS_OVERRIDE", "CNI_PATH"}

// patience is how long an agent may take to say that it is there. It does so while it is busy, too.
const patience = 10 * time.Second

type agent struct {
	socket string
	limit  time.Duration
	// optional is whether there is time to be left for the call without the agent.
	optional bool
}

type answer struct {
	status int
	body   []byte
	failed failure
}

// call has the agent carry out a call. The refusal is nil if it has.
func (a agent) call(getenv func(string) string, config []byte) (answer, *Refusal) {
	a.socket = cmp.Or(a.socket, defaultSocket)
	body, err := encode(getenv, config)
	if err != nil {
		return answer{}, &Refusal{Reason: err.Error()}
	}
	got, begun, err := a.exchange(body)
	if err == nil {
		err = got.examine(begun)
	}
	switch {
	case err != nil:
		return got, &Refusal{Reason: fmt.Sprintf("agent at %s: %v", a.socket, err), Begun: begun}
	case slices.Contains(unhandled, got.status):
		return got, &Refusal{Reason: got.text()}
	}
	return got, nil
}

// done tells whether the agent has carried out the call.
func (a answer) done() bool { return a.status == statusOK || a.status == statusNoContent }

// examine tells what the agent does not answer, begun being whether it has got the call: another program may listen at its path.
func (a *answer) examine(begun bool) error {
	if a.done() && begun {
		return nil
	}
	err := json.Unmarshal(a.body, &a.failed)
	if a.done() || err != nil || a.failed.Code == 0 {
		return fmt.Errorf("the answer has status %d and no CNI error", a.status)
	}
	return nil
}

func (a answer) text() string {
	if a.failed.Details != "" {
		a.failed.Msg += ": " + a.failed.Details
	}
	return fmt.Sprintf("%s (code %d)", a.failed.Msg, a.failed.Code)
}

// encode returns the body of a request, with the configuration as it is: errors have positions in it.
func encode(getenv func(string) string, config []byte) ([]byte, error) {
	env := map[string]string{}
	for _, name := range parameters {
		value := getenv(name)
		if !utf8.ValidString(value) {
			return nil, fmt.Errorf("%s is not valid UTF-8", name)
		}
		if value != "" {
			env[name] = value
		}
	}
	head, err := json.Marshal(env)
	return slices.Concat([]byte(`{"env":`), head, []byte(`,"config":`), config, []byte("}")), err
}

// exchange sends a request and reads the answer. The body is not sent before the agent asks for it: until
// then it has not begun.
func (a agent) exchange(body []byte) (got answer, begun bool, err error) {
	deadline := time.Now().Add(a.limit)
	c, err := connect(a.socket)
	if err != nil {
		return answer{}, false, fmt.Errorf("the agent does not answer: %w", err)
	}
	defer c.Close() //nolint:errcheck // all is read
	first := deadline
	if a.optional {
		first = time.Now().Add(min(patience, a.limit/6))
	}
	if err := c.SetDeadline(first); err != nil {
		return answer{}, false, err
	}
	_, err = fmt.Fprintf(c, "POST %s HTTP/1.1\r\nHost: agent\r\nContent-Type: application/json\r\n%s: %s\r\nContent-Length: %d\r\nExpect: 100-continue\r\nConnection: close\r\n\r\n", path, headerBuild, version.Build(), len(body))
	if err != nil {
		return answer{}, false, err
	}
	r := bufio.NewReader(io.LimitReader(c, most))
	got, err = read(r)
	if err != nil || got.status != statusContinue {
		return got, false, err
	}
	if err := c.SetDeadline(deadline); err != nil {
		return answer{}, false, err
	}
	if _, err := c.Write(body); err != nil {
		return answer{}, true, err
	}
	got, err = read(r)
	return got, true, err
}

// connect connects to a unix socket, and does not wait for one whose queue is full.
func connect(path string) (*os.File, error) {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, os.NewSyscallError("socket", err)
	}
	if err := unix.Connect(fd, &unix.SockaddrUnix{Name: path}); err != nil {
		return nil, errors.Join(os.NewSyscallError("connect", err), unix.Close(fd))
	}
	return os.NewFile(uintptr(fd), path), nil
}

// most is how many bytes of answers are read, which is more than the agent sends.
const most = 16 << 20

// read reads an answer of HTTP/1.1. Its body has a length, as all of the agent's have.
func read(r *bufio.Reader) (answer, error) {
	line, err := header(r)
	if err != nil {
		return answer{}, err
	}
	protocol, rest, _ := strings.Cut(line, " ")
	text, _, _ := strings.Cut(rest, " ")
	status, err := strconv.Atoi(text)
	if err != nil || !strings.HasPrefix(protocol, "HTTP/1.") {
		return answer{}, fmt.Errorf("%q is no answer of HTTP/1.1", line)
	}
	length, err := contentLength(r)
	if err != nil || status == statusContinue || status == statusNoContent {
		return answer{status: status}, err
	}
	if length < 0 || length > most {
		return answer{}, fmt.Errorf("the answer has status %d and a Content-Length of %d: want one of at most %d", status, length, most)
	}
	body := make([]byte, length)
	_, err = io.ReadFull(r, body)
	return answer{status: status, body: body}, err
}

// contentLength reads a header, and returns the length of the body; -1 if it has none.
func contentLength(r *bufio.Reader) (int, error) {
	length := -1
	for {
		line, err := header(r)
		if err != nil || line == "" {
			return length, err
		}
		if name, value, _ := strings.Cut(line, ":"); strings.EqualFold(name, "Content-Length") {
			if length, err = strconv.Atoi(strings.TrimSpace(value)); err != nil || length < 0 {
				return 0, fmt.Errorf("%q: want a number of bytes", line)
			}
		}
	}
}

// header returns a line of a header. One that is longer than the reader's buffer is an error.
func header(r *bufio.Reader) (string, error) {
	line, err := r.ReadSlice('\n')
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return strings.TrimRight(string(line), "\r\n"), err
}
