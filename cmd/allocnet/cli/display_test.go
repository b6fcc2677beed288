// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"
)

// TestWatch: output is written when it has changed, until an error is more than an exit
// code.
func TestWatch(t *testing.T) {
	gone := errors.New("gone")
	steps := []struct {
		text string
		err  error
	}{{"a\n", nil}, {"a\n", &ExitError{Code: 1}}, {"b\n", nil}, {"", gone}}
	for _, test := range []struct {
		on   Terminal
		want string
	}{{Terminal{}, "a\nb\n"}, {Terminal{Columns: 80}, clear + "a\n" + clear + "b\n" + clear}} {
		tick := make(chan time.Time, len(steps))
		for range steps {
			tick <- time.Time{}
		}
		var out bytes.Buffer
		i := 0
		err := watch(t.Context(), &out, test.on, tick, func(w io.Writer) error {
			i++
			_, _ = fmt.Fprint(w, steps[i-1].text)
			return steps[i-1].err
		})
		if !errors.Is(err, gone) || out.String() != test.want {
			t.Errorf("%+v: %q, %v", test.on, out.String(), err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := watch(ctx, io.Discard, Terminal{}, nil, func(io.Writer) error { return nil }); !errors.Is(err, context.Canceled) {
		t.Errorf("canceled: %v", err)
	}
}

// TestJoinedErrors: a teardown that failed has the errors of DEL and of the forced cleanup.
func TestJoinedErrors(t *testing.T) {
	var got strings.Builder
	if err := PrintLines(&got, errors.Join(errors.New("DEL failed"), errors.New("forced cleanup failed")).Error()); err != nil || got.String() != "DEL failed; forced cleanup failed\n" {
		t.Errorf("%q", got.String())
	}
}
