// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package plan

import (
	"fmt"
	"slices"
	"strings"

	"github.com/allocnet/allocnet/hook/internal/onrecord"
	"github.com/allocnet/allocnet/selection"
	"github.com/allocnet/allocnet/state"
)

// Difference says how a request differs from that of the allocation that is set up: by its namespace, else by its networks, else
// by what else it says of them, of which only a digest is on record.
func Difference(record state.Record, r Request, sameNamespace bool) string {
	if !sameNamespace {
		if r.Netns == "" {
			return "it is in " + record.Allocation.Netns + ", and the request names no namespace"
		}
		return fmt.Sprintf("it is in %s, and the request names %s", record.Allocation.Netns, r.Netns)
	}
	var has []string
	for _, a := range record.Attachments {
		if a.Batch == onrecord.SetupBatch {
			has = append(has, a.Network+"@"+a.Interface)
		}
	}
	elements, err := selection.Assign(r.Primary, r.Networks, r.Defaults)
	if err != nil {
		return err.Error()
	}
	var wanted []string
	for _, e := range elements {
		wanted = append(wanted, e.Name+"@"+e.Interface)
	}
	added, gone := without(wanted, has), without(has, wanted)
	var parts []string
	if len(added) > 0 {
		parts = append(parts, "the request adds "+strings.Join(added, ", "))
	}
	if len(gone) > 0 {
		parts = append(parts, "the request lacks "+strings.Join(gone, ", "))
	}
	switch {
	case len(parts) == 0:
		return "it has the networks of the request, with other options, ports, arguments or another owner"
	case len(gone) == 0:
		parts = append(parts, "further networks are added by a request without a primary (allocnet attach "+r.ID+" --networks "+strings.Join(names(added), ",")+")")
	}
	return strings.Join(parts, "; ")
}

func without(all, others []string) []string {
	return slices.DeleteFunc(slices.Clone(all), func(one string) bool { return slices.Contains(others, one) })
}

func names(attachments []string) []string {
	var all []string
	for _, a := range attachments {
		network, _, _ := strings.Cut(a, "@")
		all = append(all, network)
	}
	return all
}
