// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package hook

import (
	"context"
	"fmt"
	"strconv"

	"github.com/containernetworking/cni/libcni"

	"github.com/allocnet/allocnet/hook/internal/kernel"
	"github.com/allocnet/allocnet/hook/internal/onrecord"
	"github.com/allocnet/allocnet/selection"
	"github.com/allocnet/allocnet/state"
)

// ethernetMTU is what the kernel gives to links.
const ethernetMTU = 1500

// boundMTU holds the MTU of an element to that of its network, and returns the
// bridges that the smaller one would lower, with the network's MTU. A network
// none of whose plugins has the key is left to Element.Bind. unpinned
// returns the least MTU of a bridge; see Engine.unpinnedMTU.
func boundMTU(e selection.Element, list *libcni.NetworkConfigList, host kernel.Host, unpinned func(bridge string) int) (keep map[string]int, err error) {
	if e.MTU == 0 {
		return nil, nil
	}
	keep = map[string]int{}
	for _, p := range list.Plugins {
		conf, err := onrecord.DecodePlugin(p)
		if err != nil || conf.MTU == nil { // the plugin will say what is wrong
			continue
		}
		limit, err := networkMTU(conf, host)
		if err != nil {
			return nil, err
		}
		if conf.Type == "bridge" && *conf.MTU == 0 {
			limit = max(limit, unpinned(conf.Link()))
		}
		if e.MTU > limit {
			return nil, &RequestError{fmt.Sprintf("mtu of network %q", e.Name), strconv.Itoa(e.MTU), fmt.Sprintf("want %s, since the network has %d", mtuRange(limit), limit)}
		}
		if conf.Type == "bridge" && e.MTU < limit {
			keep[conf.Link()] = limit
		}
	}
	return keep, nil
}

func mtuRange(limit int) string {
	if limit < selection.MinMTU {
		return "none"
	}
	return fmt.Sprintf("%d to %d", selection.MinMTU, limit)
}

// networkMTU is what attachments of a plugin have when they choose none: the
// configured one, else that of the link that it builds on.
func networkMTU(c onrecord.Plugin, host kernel.Host) (int, error) {
	if *c.MTU > 0 {
		return *c.MTU, nil
	}
	if c.LinkInContainer || c.Link() == "" {
		return ethernetMTU, nil
	}
	mtu, ok, err := host.LinkMTU(c.Link())
	if err != nil || ok {
		return mtu, err
	}
	return ethernetMTU, nil
}

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
