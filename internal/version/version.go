// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Package version has the version of allocnet.
package version

// Version is the release, without a leading v.
const Version = "0.1.0"
