// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Package cniexec executes CNI plugins. Runner gives each call a deadline, checks
// and reports results, over any invoke.Exec; Process is the one that starts
// processes.
package cniexec
