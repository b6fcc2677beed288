// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package hook

import (
	"context"

	"github.com/allocnet/allocnet/state"
)

// keepMTU runs an ADD that gives a port of each bridge a smaller MTU than the
// network's, and sees to it that the bridge keeps its own: by itself it would
// follow its smallest port. A bridge that ADD makes gets the network's afterwards.
func (o *operation) keepMTU(ctx context.Context, a state.Attachment, add func() error) error {
	if len(a.BridgeMTU) == 0 {
		return add()
	}
	missing, err := o.pinBridges(ctx, a, a.BridgeMTU, false)
	if err != nil {
		return err
	}
	if err := add(); err != nil || len(missing) == 0 {
		return err
	}
	_, err = o.pinBridges(ctx, a, missing, true)
	return err
}

// pinBridges pins the MTU of bridges to what they have, and to that of the network
// at least where they have no port, were created by this ADD, or may follow the port of
// another attachment. It returns those that do not exist.
func (o *operation) pinBridges(ctx context.Context, a state.Attachment, bridges map[string]int, created bool) (missing map[string]int, err error) {
	unlock, err := o.store.LockBridges(ctx)
	if err != nil {
		return nil, err
	}
	defer unlock()
	missing = map[string]int{}
	for name, mtu := range bridges {
		bridge, found, err := o.config.Host.FindBridge(name)
		if err == nil && found {
			if !created && bridge.Ports > 0 {
				mtu = o.unpinnedMTU(ctx, name, o.record.Allocation.ID, a.Interface)
			}
			err = o.config.Host.PinMTU(name, max(mtu, bridge.MTU))
		}
		if err != nil {
			return nil, err
		}
		if !found {
			missing[name] = mtu
		}
	}
	return missing, nil
}

// unpinnedMTU returns the largest MTU that incomplete attachments need on a bridge:
// until they are complete the bridge may follow their ports, and nothing pins its MTU if
// they fail. Their records were written before their ADD. The attachment of an
// allocation that has the interface does not count.
func (e *Engine) unpinnedMTU(ctx context.Context, bridge, allocation, iface string) (mtu int) {
	for record, err := range e.store.List(ctx) {
		if err != nil {
			e.log.Warn("the MTU that it needs on bridges is unknown", "error", err)
			continue
		}
		for _, a := range record.Attachments {
			itself := record.Allocation.ID == allocation && a.Interface == iface
			if !itself && a.Phase != state.Attached {
				mtu = max(mtu, a.BridgeMTU[bridge])
			}
		}
	}
	return mtu
}
