// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Package isolation says which traffic of allocations passes. It does no I/O but to read the file of rules.
//
// A network has a level, in the key "isolation" of its conflist: none, network or strict. A host has rules, in one file
// that is the same on all hosts. A packet of a flow that is established passes, and so do the ICMP errors of one, and neighbour
// discovery. Of a new flow the first of these that fits decides:
//
//  0. The job of its source narrows its egress, or that of its destination its ingress, and leaves no such flow: it is denied. Of what comes
//     from the host ingress leaves all.
//  1. A rule allow has its source, its destination, and its port: it passes.
//  2. Rules egress select its source, and none of them has its destination and port: it is denied.
//  3. Its destination is a published port: it passes.
//  4. Its source is the host of its destination: it passes, unless the network has fromHost false: then it is denied.
//  5. Source and destination are attachments to different networks, and one of these is not of the level none: it is denied.
//  6. They are attachments to the same network of the level strict: it is denied.
//  7. Its destination is an attachment to a network of the level strict, and its source is neither the host nor an attachment: it is denied.
//  8. It passes.
//
// An attachment that is kept apart inside (Member.Inside) decides so for its own flows, with its host as any other machine. Hosts take it for none, and of a flow between it
// and an attachment that a host keeps apart both decide.
//
// What is not known to be an attachment is none: an address that an attachment may not use belongs to no attachment.
package isolation
