// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package cniexec

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"testing"

	"github.com/containernetworking/cni/pkg/types"
	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/internal/errdefs"
)

func TestTransient(t *testing.T) {
	code := func(code uint) error {
		return fmt.Errorf("plugin type=x failed (add): %w", types.NewError(code, "text file busy is only its message", ""))
	}
	died := exec.Command("sh", "-c", "exit 1").Run()
	for _, test := range []struct {
		err  error
		want bool
	}{
		{code(0), true}, {code(1), false}, {code(2), false}, {code(3), false}, {code(4), false}, {code(5), true}, {code(6), false},
		{code(7), false}, {code(8), false}, {code(11), true}, {code(50), true}, {code(51), true}, {code(99), false}, {code(100), true}, {code(999), true},
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

// caused is an answer of what executes a plugin of the reference set in process.
type caused struct{ cause error }

func (c *caused) Error() string { return c.cause.Error() }

func (c *caused) Unwrap() []error {
	return []error{types.NewError(types.ErrInternal, c.cause.Error(), ""), c.cause}
}

func (c *caused) Cause() error { return c.cause }

// TestTransientAnswers has what plugins say under the code for all else, by who says it.
func TestTransientAnswers(t *testing.T) {
	for text, want := range map[string]struct{ foreign, reference bool }{
		"no answer": {true, false},
		"cannot set hairpin mode and promiscuous mode at the same time": {true, false},
		`failed to set bridge addr: "b0" already has an IP address`:     {true, false},
		"failed to add route '10.1.2.3/8': invalid argument":            {false, false},
		"failed to add route '0.0.0.0/0': file exists":                  {false, false},
		"failed to delete route {10.1.2.3/32}: no such process":         {false, false},
		"failed to add route '10.1.2.3/8': device or resource busy":     {true, true},
		"no such process": {true, true},
		"open /proc/sys/net/ipv4/no: no such file or directory":                      {false, false},
		"failed to list \"invalid argument\" of b0":                                  {true, false},
		"could not add b0: device or resource busy":                                  {true, true},
		"could not add b0: file exists":                                              {true, true},
		"no such device":                                                             {true, true},
		"operation not permitted":                                                    {false, false},
		"dial unix /run/cni/dhcp.sock: connect: no such file or directory":           {true, true},
		"Link not found":                                                             {true, false},
		`could not lookup "cni0": Link not found`:                                    {true, true},
		"failed to find host device: Link not found":                                 {true, false},
		`failed to lookup master "eth9": Link not found`:                             {true, false},
		"running [/sbin/iptables -t nat]: exit status 4: another app holds the lock": {true, true},
		"running [/sbin/iptables -t nat -S --wait]: exit status 1: iptables v1.8.9 (nf_tables): table `nat' is incompatible, use 'nft' tool.\n":                                                  {true, false},
		"running [/sbin/iptables -t filter -N a b --wait]: exit status 2: iptables v1.8.9 (nf_tables): Invalid chain name `a b'\nTry `iptables -h' or 'iptables --help' for more information.\n": {true, false},
		"running [/sbin/iptables -t nat -C CNI-DN-1 -j NO --wait]: exit status 2: iptables v1.8.9 (legacy): Couldn't load target `NO':No such file or directory\nTry `iptables -h'.\n":           {true, true},
		"running [/sbin/iptables -t nat -C CNI-DN-1 -j NO --wait]: exit status 2: iptables v1.8.9 (nf_tables): Chain 'NO' does not exist\nTry `iptables -h'.\n":                                  {true, true},
		"running [/sbin/ip6tables -t filter -N a b --wait]: exit status 2: ip6tables v1.8.9 (nf_tables): Invalid chain name `a b'":                                                               {true, false},
		"failed to allocate for range 0: requested ip 10.0.0.1 is subnet's gateway":                                                                                                              {true, false},
		"failed to allocate for range 0: no IP addresses available in range set: 10.0.0.1-10":                                                                                                    {true, true},
	} {
		printed := types.NewError(types.ErrInternal, text, "")
		for name, test := range map[string]struct {
			err  error
			want bool
		}{
			"foreign plugin": {printed, want.foreign}, "reference plugin": {&referenceAnswer{printed}, want.reference},
			"in process": {&caused{errors.New(text)}, want.reference},
		} {
			if got := Transient(fmt.Errorf("plugin type=x failed (add): %w", test.err)); got != test.want {
				t.Errorf("%s: %q: %t, want %t", name, text, got, test.want)
			}
		}
	}
}

// TestTransientKernelErrors: a number and its text are the same error, in process and of a plugin.
func TestTransientKernelErrors(t *testing.T) {
	for number := unix.Errno(1); number < 134; number++ {
		wrapped := fmt.Errorf("set up x0: %w", number)
		want := !slices.Contains(permanent, number)
		for name, err := range map[string]error{
			"a plugin's": types.NewError(types.ErrInternal, wrapped.Error(), ""), "in process": &caused{wrapped},
			"with words after it": &caused{fmt.Errorf("%w (x0)", wrapped)},
		} {
			if got := Transient(err); got != want {
				t.Errorf("%s: %v: %t, want %t", name, err, got, want)
			}
		}
	}
}

// TestTransientKinds: what is executed in process says by kind that it may succeed later.
func TestTransientKinds(t *testing.T) {
	for kind, want := range map[errdefs.Kind]bool{
		errdefs.Failed: false, errdefs.Refused: false, errdefs.Conflict: false, errdefs.NotFound: false, errdefs.Unavailable: true, errdefs.Timeout: true,
	} {
		if got := Transient(&caused{errdefs.New(kind, "the port is down")}); got != want {
			t.Errorf("%v: %t, want %t", kind, got, want)
		}
	}
}

// TestReferenceAnswer: this program is no reference plugin, and no program is none.
func TestReferenceAnswer(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{self, "/nowhere"} {
		var reference referenceError
		if printed := types.NewError(999, "x", ""); errors.As(answer(path, printed), &reference) {
			t.Errorf("%s is taken for a reference plugin", path)
		}
	}
}
