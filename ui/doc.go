// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Package ui serves the status page of a host: read-only pages of what the agent's API answers.
//
// A page is for one person: each URL of Server.URL opens one session in one browser. Pages need
// no JavaScript; with it they follow the host.
package ui
