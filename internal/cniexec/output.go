// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package cniexec

import "strings"

const (
	// maxOutput bounds a plugin's answer. Results are a few KiB; a plugin that
	// prints more than this is out of control.
	maxOutput = 4 << 20
	// maxStderr is how much of the end of stderr an error carries.
	maxStderr = 2 << 10
)

// head keeps the first maxOutput bytes and reports that there were more.
type head struct {
	data     []byte
	overflow func()
}

func (h *head) Write(p []byte) (int, error) {
	room := min(maxOutput-len(h.data), len(p))
	h.data = append(h.data, p[:room]...)
	if room < len(p) {
		h.overflow()
	}
	return len(p), nil
}

// tail keeps about the last maxStderr bytes.
type tail struct{ data []byte }

func (t *tail) Write(p []byte) (int, error) {
	t.data = append(t.data, p...)
	if extra := len(t.data) - maxStderr; extra > 0 {
		t.data = append(t.data[:0], t.data[extra:]...)
	}
	return len(p), nil
}

func (t *tail) text() string { return strings.TrimSpace(string(t.data)) }
