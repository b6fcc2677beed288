// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package cniexec

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"testing"

	"github.com/containernetworking/cni/pkg/types"
	"golang.org/x/sys/unix"
)

func TestTransient(t *testing.T) {
	code := func(code uint) error {
		return fmt.Errorf("plugin type=x failed (add): %w", types.NewError(code, "text file busy is only its message", ""))
	}
	says := func(msg string) error {
		return fmt.Errorf("plugin type=x failed (add): %w", types.NewError(999, msg, ""))
	}
	died := exec.Command("sh", "-c", "exit 1").Run()
	for _, test := range []struct {
		err  error
		want bool
	}{
		{code(0), true}, {code(1), false}, {code(2), false}, {code(3), false}, {code(4), false}, {code(5), true}, {code(6), false},
		{code(7), false}, {code(8), false}, {code(11), true}, {code(50), true}, {code(51), true}, {code(99), false}, {code(100), true}, {code(999), true},
		{says("Link not found"), false}, {says(`could not lookup "cni0": Link not found`), true}, {says(`failed to lookup master "eth9": Link not found`), false},
		{says("failed to allocate for range 0: requested IP address 10.0.0.9 is not available in range set 10.0.0.1-10.0.0.254"), false},
		{says("failed to allocate for range 0: requested ip 10.0.0.1 is subnet's gateway"), false}, {says("failed to allocate all requested IPs: 10.9.0.1"), false},
		{says("failed to allocate for range 0: no IP addresses available in range set: 10.0.0.1-10.0.0.254"), true},
		{&TimeoutError{}, false}, {context.Canceled, false}, {context.DeadlineExceeded, false},
		{&ExecError{Err: died}, true}, {&ExecError{Err: unix.ETXTBSY}, true}, {&ExecError{Err: unix.ENOENT}, false},
		{errors.New("fork/exec /x: text file busy"), true}, {errors.New("exec: already started"), true},
		{errors.New("failed to find plugin"), false},
	} {
		if got := Transient(test.err); got != test.want {
			t.Errorf("%v: %t, want %t", test.err, got, test.want)
		}
	}
}
