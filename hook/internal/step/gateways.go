// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package step

import (
	"context"
	"fmt"

	"github.com/allocnet/allocnet/hook/internal/inspect"
	"github.com/allocnet/allocnet/hook/internal/onrecord"
	"github.com/allocnet/allocnet/state"
)

// gateways are the default routes that an attachment had when its batch was complete.
var gateways = step{Lacks: lackingGateways}

func lackingGateways(_ context.Context, w *Work, a state.Attachment) (lacks []Lack, err error) {
	ns, err := w.Namespace()
	if err != nil {
		return nil, err
	}
	recorded, err := onrecord.ReadStatus(a)
	if err != nil {
		return nil, err
	}
	routes, err := ns.DefaultRoutes()
	if err != nil {
		return nil, err
	}
	present, err := ns.Interfaces()
	if err != nil {
		return nil, err
	}
	for _, gateway := range inspect.LostGateways(a, recorded.Gateways, routes, present) {
		lacks = append(lacks, Lack{fmt.Sprintf("default route via %s of %s", gateway, a.Interface), func() error { return ns.AddDefaultRoute(gateway, a.Interface) }})
	}
	return lacks, nil
}
