// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package cleanup

import (
	"cmp"
	"errors"

	"github.com/allocnet/allocnet/internal/netns"
	"github.com/allocnet/allocnet/state"
)

// device is one of the host that a plugin has moved into the namespace of an allocation.
type device struct {
	netns.Device
	in state.Allocation
}

// deviceOf returns that of an attachment, wherever it is by now.
func deviceOf(a state.Allocation, attachment state.Attachment, owner Owner) Object {
	d := &device{netns.Device{Name: attachment.Device, Interface: attachment.Interface, Index: attachment.DeviceIndex, Kind: attachment.DeviceKind}, a}
	if confs := pluginConfs(attachment.ConfList); d.Name == "" && len(confs) > 0 {
		d.Name = confs[0].Device
	}
	for _, i := range resultInterfaces(attachment) {
		if i.Sandbox != "" && i.Name == attachment.Interface {
			d.MAC = i.Mac
		}
	}
	return Object{Kind: Link, Owner: owner, Where: "device " + cmp.Or(d.Name, d.Interface) + " in " + a.Netns, link: d}
}

// remove gives it back to the host.
func (d *device) remove(k kernel) error {
	ns, err := state.OpenNamespace(d.in, k.open)
	if errors.Is(err, netns.ErrMissing) {
		return k.restoreDevice(d.Device)
	}
	if err != nil {
		return err
	}
	return errors.Join(ns.ReturnDevice(d.Device), ns.Close())
}
