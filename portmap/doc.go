// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Package portmap turns the ports of an allocation into the mappings that the
// portMappings capability of CNI carries, by Nomad's rules: a port without
// `to` maps to itself, one without a protocol is mapped for TCP and UDP, and
// the host IP is kept.
//
// Functions do not modify their input.
package portmap
