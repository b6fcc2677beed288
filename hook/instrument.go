// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package hook

import (
	"time"

	"github.com/allocnet/allocnet/state"
)

// Observation is one operation on one attachment, after its last attempt.
type Observation struct {
	// Op is "attach", "detach" or, for forced cleanup, "cleanup".
	Op        string
	Network   string
	Interface string
	// Attempts is the number of its attempts.
	Attempts int
	// Took is the time of all attempts and the pauses between them.
	Took time.Duration
	// Err is nil when it succeeded.
	Err error
}

// Observer receives every operation on an attachment. Attachments are worked
// on at the same time, so its method is called concurrently.
type Observer interface {
	Observe(o Observation)
}

// instrument does an operation and reports it.
func (o *operation) instrument(op string, a *state.Attachment, do func() error) error {
	started := time.Now()
	err := do()
	if o.config.Observer != nil {
		o.config.Observer.Observe(Observation{op, a.Network, a.Interface, a.Attempts, time.Since(started), err})
	}
	return err
}
