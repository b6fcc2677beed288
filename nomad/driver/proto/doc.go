// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Package proto is the gRPC protocol between Nomad and its plugins, as far as the driver uses it.
// protoc-gen-go and protoc-gen-go-grpc make it from the .proto files: run `make proto` after a
// change. A field that is not here is skipped, and stays in a message that goes back to Nomad. An
// unknown method is answered with Unimplemented. The wire protocol is the same from Nomad 1.6 to
// 2.0; a test of e2e/driver compares it with that of the Nomad agent.
//
// The names and numbers are Nomad's. So a program cannot link both this package and Nomad's own
// definitions: the registry of protobuf has one message for each name.
package proto
