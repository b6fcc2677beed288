// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Package kernel is what the engine asks of the kernel: the network namespaces of allocations, and that of the host. Tests
// of the engine have both in memory.
package kernel
