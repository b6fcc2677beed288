// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package isolation

// Level is how far a network is apart from others.
type Level string

// Levels. The empty one is None.
const (
	// None has no traffic denied, but by rules.
	None Level = "none"
	// Network has no traffic with other networks of allocnet.
	Network Level = "network"
	// Strict has none between its own attachments either, and none from elsewhere.
	Strict Level = "strict"
)
