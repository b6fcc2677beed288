// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Package selection reads and checks what a job says about its networks.
//
// There are two forms with one result. The short one is a list of names, each
// with an interface if wished:
//
//	storage,mgmt@net5
//
// The other is a JSON list of selection elements as the network plumbing
// working group defines them (Multi-Network Specification, "Network
// Attachment Selection Annotation"), without the keys that only mean something
// to Kubernetes, and with "mtu" and "ports" besides:
//
//	[{"name": "storage", "interface": "net1", "ips": ["10.1.0.9/24"]}]
//
// Job authors are not trusted: whatever passes here is safe in a path, an
// argument and a rule, and every error says where it is and what would do.
package selection
