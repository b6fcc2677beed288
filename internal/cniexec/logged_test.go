// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package cniexec

import (
	"bytes"
	"context"
	"errors"
	"regexp"
	"testing"

	"github.com/containernetworking/cni/pkg/invoke"
	"github.com/hashicorp/go-hclog"
)

// answering is an executor with one answer.
type answering struct {
	invoke.Exec
	err error
}

func (a answering) ExecPlugin(context.Context, string, []byte, []string) ([]byte, error) {
	return []byte("{}"), a.err
}

// TestLogged: each call is a line with its duration, and its answer is passed on.
func TestLogged(t *testing.T) {
	failed := errors.New("no such VLAN")
	for err, want := range map[error]string{
		nil:    `fake: plugin call: plugin=fake verb=ADD took=\d\S*\n$`,
		failed: `fake: plugin call: plugin=fake verb=ADD took=\d\S* error="no such VLAN"\n$`,
	} {
		var log bytes.Buffer
		l := Logged{answering{err: err}, hclog.New(&hclog.LoggerOptions{Name: "fake", Level: hclog.Debug, Output: &log, DisableTime: true})}
		result, got := l.ExecPlugin(t.Context(), "/opt/cni/bin/fake", nil, []string{"CNI_COMMAND=ADD"})
		if string(result) != "{}" || !errors.Is(got, err) {
			t.Errorf("got %s, %v", result, got)
		}
		if !regexp.MustCompile(want).MatchString(log.String()) {
			t.Errorf("%q, want %s", log.String(), want)
		}
	}
}
