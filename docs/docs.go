// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Package docs has the pages that manual pages are made from.
package docs

import _ "embed"

var (
	// Agent is agent.md.
	//go:embed agent.md
	Agent string
	// Nomad is nomad.md.
	//go:embed nomad.md
	Nomad string
	// IPAM is ipam.md.
	//go:embed ipam.md
	IPAM string
	// Isolation is isolation.md.
	//go:embed isolation.md
	Isolation string
)
