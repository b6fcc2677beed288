// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Package driver is a Nomad task driver whose tasks are network attachments: a
// task is started by attaching the namespace of its group to the networks that
// its config names, runs as long as they are attached, and is stopped by
// detaching them.
//
// Nomad talks to it by gRPC (hashicorp/go-plugin, protocol version 2). Of
// Nomad's module only the protobuf packages are imported. What is attached
// stands in the engine's records, under the allocation's ID and the task's
// name; the driver's own memory is what a restart may lose.
package driver
