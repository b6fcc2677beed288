// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Package cniplugin carries out the calls of CNI runtimes for allocnet-cni, a plugin that attaches a
// container to several networks: those of the host's configuration, and those that the job selects.
// A call is a request to the engine. The program makes it in its own process, and needs no daemon.
//
// The author of a job can set CNI_ARGS. The plugin reads only the keys of its own from them, and
// forwards only arguments that Nomad itself sets or that hold within a job's group. What the agent
// has read from Nomad comes in args.cni, which no job can write.
//
// DEL has no arguments, and may have no namespace, or another conflist than ADD. It uses the
// record, and never requires the agent, because Nomad calls it once. The owner of a record is the
// conflist's name and the interface, so that a DEL or GC for another attachment of the container
// changes nothing. A second ADD for a live namespace is an error. After a failed CHECK or a reboot
// the namespace is another one, and ADD first tears down the earlier attachments.
package cniplugin
