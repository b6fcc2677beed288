// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package step

import "github.com/allocnet/allocnet/state"

// loopback sets lo up, which some runtimes leave down. It is not set down again: in a namespace of another runtime, programs may
// use it from now on.
var loopback = step{Prepared: func(w *Work, _ []state.Attachment) error {
	ns, err := w.Namespace()
	if err != nil {
		return err
	}
	return ns.SetLoopbackUp()
}}
