// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Package proto has the messages between Nomad and its plugins, as far as the driver reads or sends
// them: structures whose tags the runtime of protobuf reads. Package driver has the table of methods; a
// message of which nothing is read or sent is google.protobuf.Empty there.
// A field that is not here is skipped. Where a message goes back to Nomad it stays in XXX_unrecognized, the name
// that the runtime looks for. An unknown method is answered with Unimplemented. The wire protocol is the same from
// Nomad 1.6 to 2.0; a test of e2e/driver compares it with that of the Nomad agent.
//
// The names and numbers are Nomad's.
package proto
