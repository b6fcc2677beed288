// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Package proto is the gRPC protocol between Nomad and its plugins, as far as the
// driver uses it. protoc-gen-go and protoc-gen-go-grpc make it from the .proto files:
// run `make proto` after a change. A field that is not here is skipped, and an unknown
// method is answered with Unimplemented.
//
// The names and numbers are Nomad's. So a program cannot link both this package and
// Nomad's own definitions: the registry of protobuf has one message for each name.
package proto
