// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package hook

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/containernetworking/cni/libcni"

	"github.com/allocnet/allocnet/internal/netns"
	"github.com/allocnet/allocnet/selection"
)

// ethernetMTU is what the kernel gives to links.
const ethernetMTU = 1500

// boundMTU holds the MTU of an element to that of its network, and returns the
// bridges that the smaller one would lower, with the network's MTU. A network
// none of whose plugins has the key is left to Element.Bind.
func boundMTU(e selection.Element, list *libcni.NetworkConfigList) (keep map[string]int, err error) {
	if e.MTU == 0 {
		return nil, nil
	}
	keep = map[string]int{}
	for _, p := range list.Plugins {
		conf, err := decodePlugin(p)
		if err != nil || conf.MTU == nil { // the plugin will say what is wrong
			continue
		}
		limit, err := conf.mtu()
		if err != nil {
			return nil, err
		}
		if e.MTU > limit {
			return nil, &RequestError{fmt.Sprintf("mtu of network %q", e.Name), strconv.Itoa(e.MTU), fmt.Sprintf("want %s, since the network has %d", mtuRange(limit), limit)}
		}
		if conf.Type == "bridge" && e.MTU < limit {
			keep[conf.link()] = limit
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

// mtu is what attachments of the plugin have when they choose none: the
// configured one, else that of the link that it builds on.
func (c pluginConf) mtu() (int, error) {
	if *c.MTU > 0 {
		return *c.MTU, nil
	}
	if c.LinkInContainer || c.link() == "" {
		return ethernetMTU, nil
	}
	mtu, ok, err := netns.LinkMTU(c.link())
	if err != nil || ok {
		return mtu, err
	}
	return ethernetMTU, nil
}

// link is the host's link that the plugin builds on.
func (c pluginConf) link() string {
	if c.Type == "bridge" {
		return cmp.Or(c.Bridge, "cni0")
	}
	return c.Master
}

// keepMTU runs an ADD that gives a port of each bridge a smaller MTU than the
// network's, and sees to it that the bridge keeps its own: by itself it would
// follow its smallest port. One without ports gets the network's afterwards; if
// ADD fails it has lost the port, and its MTU is what it was.
func (e *Engine) keepMTU(ctx context.Context, bridges map[string]int, add func() error) error {
	if len(bridges) == 0 {
		return add()
	}
	after, err := e.pinBridges(ctx, bridges)
	if err != nil {
		return err
	}
	if err := add(); err != nil || len(after) == 0 {
		return err
	}
	unlock, err := e.store.LockBridges(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	var errs []error
	for name, mtu := range after {
		errs = append(errs, netns.PinMTU(name, mtu))
	}
	return errors.Join(errs...)
}

// pinBridges pins the MTU of the bridges that have ports, and returns what the
// others are to have after ADD.
func (e *Engine) pinBridges(ctx context.Context, bridges map[string]int) (after map[string]int, err error) {
	unlock, err := e.store.LockBridges(ctx)
	if err != nil {
		return nil, err
	}
	defer unlock()
	after = map[string]int{}
	for name, mtu := range bridges {
		bridge, found, err := netns.FindBridge(name)
		switch {
		case err != nil:
			return nil, err
		case found && bridge.Ports > 0:
			err = netns.PinMTU(name, bridge.MTU)
		default:
			after[name] = max(mtu, bridge.MTU)
		}
		if err != nil {
			return nil, err
		}
	}
	return after, nil
}
