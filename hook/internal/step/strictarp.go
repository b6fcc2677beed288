// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package step

import (
	"context"
	"fmt"
	"slices"

	"github.com/allocnet/allocnet/state"
)

// strictARP has an interface answer ARP for its own addresses alone, and ask with them. The kernel answers on each interface for the
// addresses of all: where two are in one subnet, neighbours would send what is for one of them to the other.
var strictARP = step{Added: setStrictARP, Lacks: lackingStrictARP}

// arpParameters are those of an interface, with the values that are more. They go with it. arp_ignore 3 to 7 are less: 3 is for the
// addresses of all interfaces, and the others are none.
var arpParameters = []struct {
	name, value string
	more        []string
}{{"arp_ignore", "1", []string{"2", "8"}}, {"arp_announce", "2", nil}}

func setStrictARP(w *Work, a *state.Attachment) error {
	return makeAll(lackingStrictARP(context.Background(), w, *a))
}

// lackingStrictARP looks whether a plugin or a task has set others. One that the operator has set to more is more.
func lackingStrictARP(_ context.Context, w *Work, a state.Attachment) (lacks []Lack, err error) {
	if !a.StrictARP {
		return nil, nil
	}
	ns, err := w.Namespace()
	if err != nil {
		return nil, err
	}
	for _, p := range arpParameters {
		path := "net/ipv4/conf/" + a.Interface + "/" + p.name
		now, err := ns.Parameter(path)
		if err != nil {
			return nil, fmt.Errorf("read sysctl %s: %w", path, err)
		}
		if now == p.value || slices.Contains(p.more, now) {
			continue
		}
		lacks = append(lacks, Lack{fmt.Sprintf("%s has to have %s %s", a.Interface, p.name, p.value), func() error { return ns.SetParameter(path, p.value) }})
	}
	return lacks, nil
}
