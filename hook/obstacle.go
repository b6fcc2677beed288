// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package hook

import (
	"slices"
	"strings"
)

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
