// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Package inspect compares an attachment with its record, for Check, Verify, Inspect and repairs. It tells whether the
// attachment is damaged, whether only a task of the allocation can have done that, or why neither can be known. It changes
// nothing, and its callers list the interfaces and routes that it compares.
package inspect

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/containernetworking/cni/pkg/types"

	"github.com/allocnet/allocnet/internal/netns"
	"github.com/allocnet/allocnet/state"
)

// DamageError is what was seen to be wrong with a network.
type DamageError struct{ Reason string }

func (e *DamageError) Error() string { return e.Reason }

// Damaged returns a *DamageError.
func Damaged(format string, a ...any) error { return &DamageError{fmt.Sprintf(format, a...)} }

// IsDamage tells what was seen to be wrong from what keeps anyone from seeing
// it: a plugin that is missing, hangs or dies, the codes of the CNI specification
// that speak of the call, and what a plugin lacks. Plugins report damage with code
// 3, with codes of their own, or, as the reference plugins do, with 999.
func IsDamage(err error) bool {
	if _, seen := errors.AsType[*DamageError](err); seen || errors.Is(err, netns.ErrMissing) {
		return true
	}
	own, ok := errors.AsType[*types.Error](err)
	if !ok || namesObstacle(own.Error()) {
		return false
	}
	return own.Code == types.ErrUnknownContainer || own.Code == 0 || own.Code >= 100
}

// NotComplete is that an attachment is not complete.
func NotComplete(a state.Attachment) error {
	return Damaged("set-up or teardown was interrupted in phase %q: tear it down and set it up again", a.Phase)
}

// obstacles are what plugins, and the libraries that they are made with, say when
// they cannot look at a network. Most plugins give all errors the code 999, so that
// only the text tells: it says nothing of the network, which may be intact.
var obstacles = []string{
	// A program or a plugin is missing, or does not run.
	"executable file not found", "fork/exec ", "exec format error", "signal: ",
	"failed to find plugin", "failed to locate iptables", "could not initialize iptables",
	"neither iptables nor ip6tables is usable", "nft version must be", "could not run nftables command",
	// The caller lacks rights, or the host resources.
	"permission denied", "operation not permitted", "read-only file system",
	"cannot allocate memory", "too many open files", "no space left on device", "no buffer space available",
	"resource temporarily unavailable", "device or resource busy", "input/output error", "text file busy",
	// Another program has the lock, or a daemon does not answer.
	"xtables lock", "dial unix ", "connection refused", "connection reset", "i/o timeout", "deadline exceeded",
	"interrupted system call", "results may be incomplete or inconsistent",
}

// namesObstacle tells whether a plugin's error says what kept it from looking.
func namesObstacle(text string) bool {
	text = strings.ToLower(text)
	return slices.ContainsFunc(obstacles, func(obstacle string) bool { return strings.Contains(text, obstacle) })
}
