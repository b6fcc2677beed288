// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Package onrecord reads what is on record of an attachment: its conflist, the result of its plugins, what was observed of it,
// and the addresses to request when it is attached again. It does no I/O.
package onrecord
