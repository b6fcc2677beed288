// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package doctor

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/allocnet/allocnet/hook"
)

func (d *Doctor) drifts(ctx context.Context, r *Report) {
	if d.Drifts == nil {
		return
	}
	drifts, err := d.Drifts(ctx)
	if err != nil {
		r.addError("attachments", "cannot be compared with the host: "+err.Error(), "fix the cause that the error names")
	}
	driftFindings(r, drifts)
}

func driftFindings(r *Report, drifts []hook.Drift) {
	for _, d := range drifts {
		var damaged *hook.DamagedRecordError
		switch again := "allocnet repair " + d.Allocation; {
		case d.Skipped == hook.SkippedBusy:
			r.addUnexamined(d.Allocation, "is not compared with the host: "+d.Skipped, "run allocnet doctor again when that call has ended")
		case !d.Open() || errors.As(d.Err, &damaged): // which recordFindings reports
		case len(d.Unrepairable) > 0:
			r.addError(d.Allocation, lacks(d, d.Unrepairable), again+" --reattach, or stop the allocation and start it again")
		case len(d.Missing) > 0:
			r.addError(d.Allocation, lacks(d, d.Missing), again)
		case d.Err != nil:
			r.addError(d.Allocation, "cannot be compared with the host: "+d.Err.Error(), "fix the cause that the error names, then: "+again)
		}
	}
}

func lacks(d hook.Drift, what []string) string {
	return nameOf(d.Interface, d.Network) + " lacks: " + listing(what)
}

// nameOf is the name of an attachment; lo belongs to no network.
func nameOf(iface, network string) string {
	if network == "" {
		return iface
	}
	return iface + " on " + network
}

// longestListing is how many things a finding lists.
const longestListing = 5

func listing(what []string) string {
	if more := len(what) - longestListing; more > 0 {
		return fmt.Sprintf("%s, and %d more", strings.Join(what[:longestListing], ", "), more)
	}
	return strings.Join(what, ", ")
}
