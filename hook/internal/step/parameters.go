// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package step

import (
	"errors"
	"fmt"
	"slices"

	"github.com/allocnet/allocnet/hook/internal/onrecord"
	"github.com/allocnet/allocnet/internal/netns"
	"github.com/allocnet/allocnet/state"
)

// parameters has those of the namespace that several networks set be as the last of them has them. The plugin tuning, which sets them,
// leaves them as they are when a network is detached.
var parameters = step{Restored: keepParameters, Kept: returnParameters}

// keepParameters sets those of later attachments again.
func keepParameters(w *Work, a *state.Attachment) error {
	setParameters(w, onrecord.Overlaid(onrecord.Later(*a, w.Record.Attachments), []state.Attachment{*a}))
	return nil
}

// returnParameters sets those of attachments that are kept.
func returnParameters(w *Work, removed []state.Attachment) error {
	kept := slices.DeleteFunc(slices.Clone(w.Record.Attachments), func(a state.Attachment) bool {
		return slices.ContainsFunc(removed, func(r state.Attachment) bool { return r.Index == a.Index })
	})
	setParameters(w, onrecord.Overlaid(kept, removed))
	return nil
}

// setParameters sets those that it can: what fails is missing of the attachments whose they are, and stops no other one.
func setParameters(w *Work, parameters []onrecord.Parameter) {
	if len(parameters) == 0 {
		return
	}
	ns, err := w.Namespace()
	if err == nil {
		for _, p := range parameters {
			if failed := ns.SetParameter(p.Path, p.Value); failed != nil {
				err = errors.Join(err, fmt.Errorf("set sysctl %s to %q: %w", p.Path, p.Value, failed))
			}
		}
	}
	if err != nil && !errors.Is(err, netns.ErrMissing) {
		w.Log.Warn("networks lack what another one had set", "error", err)
	}
}
