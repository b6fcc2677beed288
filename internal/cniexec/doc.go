// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Package cniexec executes CNI plugins. Runner gives each call a deadline, checks and reports
// results, over any invoke.Exec; Process is the one that starts processes.
//
// A plugin outlives a process of ours that is killed. It inherits the directory of its allocation,
// opened with a shared flock, so that the next teardown can wait for it.
//
// The version of a plugin decides nothing: those of Debian do not say theirs. Transient tells
// which failures may pass by their code, and by what the text of a reference plugin says.
package cniexec
