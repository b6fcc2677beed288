// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package step

import (
	"context"
	"fmt"

	"github.com/hashicorp/go-hclog"

	"github.com/allocnet/allocnet/state"
)

// bridgeMTU has bridges keep their MTU when they get a port with a smaller one.
var bridgeMTU = step{Around: keepMTU, Lacks: lackingMTU}

// keepMTU runs an ADD that gives a port of each bridge a smaller MTU than the
// network's, and sees to it that the bridge keeps its own: by itself it would
// follow its smallest port. A bridge that ADD makes gets the network's afterwards.
func keepMTU(ctx context.Context, w *Work, c Call, add func() error) error {
	a := c.Attachment
	if len(a.BridgeMTU) == 0 {
		return add()
	}
	missing, err := pinBridges(ctx, w, a, a.BridgeMTU, false)
	if err != nil {
		return err
	}
	if err := add(); err != nil || len(missing) == 0 {
		return err
	}
	_, err = pinBridges(ctx, w, a, missing, true)
	return err
}

// pinBridges pins the MTU of bridges to what they have, and to that of the network
// at least where they have no port, were created by this ADD, or may follow the port of
// another attachment. It returns those that do not exist.
func pinBridges(ctx context.Context, w *Work, a state.Attachment, bridges map[string]int, created bool) (missing map[string]int, err error) {
	unlock, err := w.Store.Bridges().Lock(ctx)
	if err != nil {
		return nil, err
	}
	defer unlock()
	missing = map[string]int{}
	for name, mtu := range bridges {
		bridge, found, err := w.Host.FindBridge(name)
		if err == nil && found {
			if !created && bridge.Ports > 0 {
				mtu = UnpinnedMTU(ctx, w.Store, w.Log, name, w.Record.Allocation.ID, a.Interface)
			}
			err = w.Host.PinMTU(name, max(mtu, bridge.MTU))
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

// UnpinnedMTU returns the largest MTU that incomplete attachments need on a bridge:
// until they are complete the bridge may follow their ports, and nothing pins its MTU if
// they fail. Their records were written before their ADD. The attachment of an
// allocation that has the interface does not count.
func UnpinnedMTU(ctx context.Context, store *state.Store, log hclog.Logger, bridge, allocation, iface string) (mtu int) {
	for record, err := range store.List(ctx) {
		if err != nil {
			log.Warn("the MTU that it needs on bridges is unknown", "error", err)
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

// lackingMTU looks for bridges that an attachment's smaller MTU has lowered.
func lackingMTU(ctx context.Context, w *Work, a state.Attachment) (lacks []Lack, err error) {
	for name, mtu := range a.BridgeMTU {
		bridge, found, err := w.Host.FindBridge(name)
		if err != nil {
			return lacks, err
		}
		if !found || bridge.MTU >= mtu {
			continue
		}
		lacks = append(lacks, Lack{fmt.Sprintf("MTU of %s is %d, the network has %d", name, bridge.MTU, mtu), func() error {
			_, err := pinBridges(ctx, w, a, map[string]int{name: mtu}, true)
			return err
		}})
	}
	return lacks, nil
}
