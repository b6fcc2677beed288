// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Package selection reads and validates a job's selection of networks.
//
// There are two forms with the same result. The short form is a list of names, each with an
// optional interface:
//
//	storage,mgmt@net5
//
// The other form is a JSON list of selection elements as the network plumbing working group
// defines them (Multi-Network Specification, "Network Attachment Selection Annotation"), without
// the keys that have a meaning in Kubernetes only, and with "mtu" and "ports" in addition:
//
//	[{"name": "storage", "interface": "net1", "ips": ["10.1.0.9/24"]}]
//
// Job authors are not trusted: a validated element is safe in a path, an argument and a firewall
// rule. Each error names the position, the value and a valid value.
//
// A key is a field of allocation.Element, with its check in validate.go. One that plugins get as a capability
// is bound in bind.go, and one that an operator may want to deny has a rule in policy/rules.go and
// policy/check.go. An element has another form in nomad/driver/config.go, with its schema, and a
// description in agent/api/openapi.json. Describe it in docs/nomad.md and docs/nomad-driver.md.
package selection
