// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package hook

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/allocnet/allocnet/cniconf"
	"github.com/allocnet/allocnet/hook/internal/inspect"
	"github.com/allocnet/allocnet/hook/internal/onrecord"
	"github.com/allocnet/allocnet/state"
)

// requireReleased looks for what a DEL that reports success has left: host-local and libcni report no file that
// they cannot remove, and host-device takes any interface of the name for its device. What is found is removed by forced
// cleanup, or stays on record as pending.
func (o *operation) requireReleased(a state.Attachment, is inspect.Absence) error {
	list, err := onrecord.List(a)
	if err != nil {
		return nil //nolint:nilerr // DEL has read it, so it never fails
	}
	n := cniconf.Network{Name: list.Name, List: list}
	var left []error
	for _, l := range leasesOf(a, n.Pools()) {
		if l.Plugin == hostLocal && l.Problem == "" {
			left = append(left, fmt.Errorf("DEL reports success, and the lease of %s in network %s is there still", l.Address, l.Pool))
		}
	}
	if a.Device != "" && is != inspect.Replaced { // else forced cleanup, which follows, moves it
		if _, found, err := o.config.Host.LinkMTU(a.Device); err != nil || !found {
			left = append(left, cmp.Or(err, fmt.Errorf("DEL reports success, and the host has no device %s", a.Device)))
		}
	}
	if path, holds := o.config.cache().Holds(a); holds {
		left = append(left, fmt.Errorf("DEL reports success, and the cached result %s is there still", path))
	}
	return errors.Join(left...)
}
