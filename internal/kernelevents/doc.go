// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Package kernelevents receives what the kernel tells of changes, by netlink. See netlink(7).
package kernelevents
