// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Package driver is a Nomad task driver whose tasks are network attachments. Starting a task
// attaches the network namespace of its group to the networks of its config. The task runs as long
// as they are attached. Stopping it detaches them.
//
// Nomad calls the driver by gRPC (hashicorp/go-plugin, protocol version 2, and package proto).
// Attachments are in the engine's records, under the allocation's ID and the task's name, and
// Nomad keeps a handle with what RecoverTask needs. The state in memory may be lost with the
// process: StartTask first releases what a killed process left of the task.
//
// A refused request is an error that Nomad does not retry. A failure of a plugin is recoverable.
package driver
