// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package errdefs

import (
	"context"
	"errors"
	"fmt"
	"testing"
)

func TestOf(t *testing.T) {
	plain, refused, conflict := errors.New("disk full"), New(Refused, "no such network"), New(Conflict, "exists")
	for name, test := range map[string]struct {
		err  error
		want Kind
	}{
		"nil":                  {nil, Failed},
		"no kind":              {plain, Failed},
		"its own":              {refused, Refused},
		"wrapped":              {fmt.Errorf("a1: %w", refused), Refused},
		"the outermost":        {As(Failed, fmt.Errorf("plugin: %w", refused)), Failed},
		"the lowest of two":    {errors.Join(refused, conflict), Conflict},
		"in any order":         {errors.Join(conflict, refused), Conflict},
		"beside one without":   {errors.Join(refused, plain), Failed},
		"undo failed as well":  {errors.Join(refused, As(Failed, plain)), Failed},
		"two of a sentence":    {fmt.Errorf("given up: %w, after: %w", New(Timeout, "too late"), plain), Failed},
		"kept in a sentence":   {As(Timeout, fmt.Errorf("given up: %w, after: %w", New(Timeout, "too late"), plain)), Timeout},
		"two without":          {errors.Join(plain, plain), Failed},
		"a context's end":      {fmt.Errorf("wait: %w", context.Canceled), Unavailable},
		"a context's deadline": {fmt.Errorf("wait: %w", context.DeadlineExceeded), Timeout},
	} {
		if got := Of(test.err); got != test.want {
			t.Errorf("%s: %v, want %v", name, got, test.want)
		}
	}
}

func TestAs(t *testing.T) {
	cause := errors.New("x")
	if err := As(Refused, cause); err.Error() != "x" || !errors.Is(err, cause) {
		t.Errorf("%v has lost its cause", err)
	}
	if err := As(Refused, nil); err != nil {
		t.Errorf("nil became %v", err)
	}
}
