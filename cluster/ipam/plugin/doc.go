// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Package plugin executes the calls of the CNI plugin allocnet-ipam: as the program of that
// name, and in the engine's process.
package plugin
