// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package api

// Map is a picture of the host, and how it differs from the records.
type Map struct {
	// SVG draws networks, devices, allocations and attachments. It has no script, and needs
	// nothing from elsewhere.
	SVG string `json:"svg"`
	// Drift is what differs.
	Drift []Drift `json:"drift"`
}

// Drift is how a device or an allocation differs from what was attached.
type Drift struct {
	// Network, Allocation and Interface are where. Empty: the difference is of another one.
	Network    string `json:"network,omitempty"`
	Allocation string `json:"allocation,omitempty"`
	Interface  string `json:"interface,omitempty"`
	// Text says what differs.
	Text string `json:"text"`
}
