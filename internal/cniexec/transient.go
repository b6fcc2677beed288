// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package cniexec

import (
	"context"
	"debug/buildinfo"
	"errors"
	"os/exec"
	"slices"
	"strings"

	"github.com/containernetworking/cni/pkg/types"
	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/internal/errdefs"
)

// Transient tells whether a failed ADD may succeed when repeated. Deadlines
// are not: a plugin that hung for a minute would keep its caller for three.
func Transient(err error) bool {
	if _, late := errors.AsType[*TimeoutError](err); late || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return false
	}
	if own, ok := errors.AsType[*types.Error](err); ok {
		return transientAnswer(err, own)
	}
	if _, ok := errors.AsType[*ExecError](err); ok {
		var exit *exec.ExitError
		return errors.As(err, &exit) || errors.Is(err, unix.ETXTBSY)
	}
	// Of some only the text arrives: the second attempt that libcni makes after "text file busy" fails with the other one.
	return strings.Contains(err.Error(), "text file busy") || strings.Contains(err.Error(), "exec: already started")
}

// transientAnswer sorts the answers of plugins: by their codes (CNI specification 1.1, "Error"),
// and those of the code for everything else by what is behind them.
func transientAnswer(err error, own *types.Error) bool {
	switch own.Code {
	case types.ErrIOFailure, types.ErrTryAgainLater, types.ErrPluginNotAvailable, types.ErrLimitedConnectivity:
		return true
	}
	if own.Code != 0 && own.Code < 100 { // 0 is a plugin that gave none
		return false
	}
	text := strings.TrimSpace(own.Msg)   // what a program has said ends with its line
	if strings.Contains(text, "dial ") { // a daemon that may be about to start
		return true
	}
	if number, ok := kernelError(err, text); ok {
		// Routes that are there or not depend on the configuration: the namespace is the allocation's alone.
		ofRoutes := strings.Contains(text, " route ") && (number == unix.EEXIST || number == unix.ESRCH)
		return !ofRoutes && !slices.Contains(permanent, number)
	}
	if reference, ok := errors.AsType[referenceError](err); ok {
		return !isRefusal(reference.Cause(), text)
	}
	return true
}

// permanent are the errors by which the kernel says that what it was asked for is wrong, or that
// it cannot do it. All others depend on what else happens on the host.
var permanent = []unix.Errno{
	unix.EINVAL, unix.ENOENT, unix.EPERM, unix.EACCES, unix.EOPNOTSUPP, unix.ENOSYS, unix.EROFS, unix.ERANGE, unix.EDOM, unix.E2BIG,
	unix.ENOTDIR, unix.EISDIR, unix.ELOOP, unix.ENAMETOOLONG, unix.ENOTTY, unix.ENXIO, unix.EOVERFLOW, unix.EMSGSIZE, unix.EPROTONOSUPPORT,
	unix.EAFNOSUPPORT, unix.EPFNOSUPPORT, unix.EADDRNOTAVAIL, unix.ENETUNREACH, unix.EHOSTUNREACH, unix.ENOEXEC, unix.ENOTUNIQ,
}

// numbers are the kernel's errors by their texts.
var numbers = func() map[string]unix.Errno {
	all := map[string]unix.Errno{}
	for number := unix.Errno(1); number < 134; number++ {
		all[number.Error()] = number
	}
	return all
}()

// kernelError returns the kernel's error that an error is made of. Of a plugin, and of much
// that is executed in process, only its text arrives, behind the last colon.
func kernelError(err error, text string) (unix.Errno, bool) {
	if number, ok := errors.AsType[unix.Errno](err); ok {
		return number, true
	}
	last := text
	if i := strings.LastIndex(text, ": "); i >= 0 {
		last = text[i+len(": "):]
	}
	number, ok := numbers[last]
	return number, ok
}

// referenceError is an answer of a plugin of the reference set, or of what does its work in process: it
// fails because of the kernel, of a program that it executes, or because it refuses.
type referenceError interface {
	error
	// Cause is what the answer was made of; nil if only its text is known.
	Cause() error
}

// isRefusal tells whether a plugin of the reference set has found something wrong itself.
func isRefusal(cause error, text string) bool {
	if kind := errdefs.Of(cause); kind == errdefs.Unavailable || kind == errdefs.Timeout {
		return false
	}
	if strings.HasSuffix(text, "is incompatible, use 'nft' tool.") { // iptables, of a table in which another program has rules
		return true
	}
	// 2 is what iptables ends with if its arguments are wrong, or name a chain that is not there, which another program may be making.
	if strings.Contains(text, "tables") && strings.Contains(text, "exit status 2: ") && !strings.Contains(text, "does not exist") && !strings.Contains(text, "load target") {
		return true
	}
	if strings.Contains(text, "exit status ") || strings.Contains(text, "signal: ") { // a program, such as iptables
		return false
	}
	// A link has vanished while the plugin ran, unless it is the one that the configuration names: that
	// is said without any more words, or as of a master or a device.
	if strings.HasSuffix(text, ": Link not found") && !strings.Contains(text, "failed to lookup master") && !strings.Contains(text, "failed to find host device") {
		return false
	}
	return !strings.Contains(text, "no IP addresses available") // until one is released
}

// referenceModule begins the package paths of the reference plugins.
const referenceModule = "github.com/containernetworking/plugins/"

// answer returns what a plugin printed. That of a reference plugin can be told apart.
func answer(path string, printed *types.Error) error {
	built, err := buildinfo.ReadFile(path)
	if err != nil || !strings.HasPrefix(built.Path, referenceModule) {
		return printed
	}
	return &referenceAnswer{printed}
}

type referenceAnswer struct{ error }

func (r *referenceAnswer) Unwrap() error { return r.error }

// Cause is not known.
func (*referenceAnswer) Cause() error { return nil }
