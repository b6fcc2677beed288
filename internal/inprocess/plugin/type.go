// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Package plugin has what a plugin type that is executed in this process consists of, and what all of them share: the call
// with its configuration and results, what ADD and DEL leave to be committed (Changes), and the commit for all networks of
// an allocation together.
package plugin

import (
	current "github.com/containernetworking/cni/pkg/types/100"
)

// Type executes the verbs of one type of the reference set, of any number of attachments at the same time. Each verb is safe to
// repeat but ADD; a repair has the result of ADD in its configuration, and DEL may have none.
type Type struct {
	// Config returns an empty configuration with all keys that the plugin understands, for
	// encoding/json.
	Config func() any
	Add    func(*Call) (*current.Result, error)
	Del    func(*Call) error
	// Understands refuses values of a configuration that are not executed in process; nil if
	// all are.
	Understands func(config []byte) error
	// Leave does what has to be done while the interface is still there: before DEL, and after an ADD that failed. It succeeds as far as it
	// can; nil: nothing has to be done.
	Leave func(*Call)
	// Status tells why ADD would fail now; nil for plugins that cannot tell.
	Status func(*Call) error
	// Repair is CHECK: it makes what is missing of what Add makes, unless that is only to be told, and notes it in Call.Repair. nil for
	// IPAM types, which have nothing to repair.
	Repair func(*Call) error
}
