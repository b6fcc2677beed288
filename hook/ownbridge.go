// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package hook

import (
	"context"
	"errors"

	"github.com/containernetworking/cni/libcni"

	"github.com/allocnet/allocnet/hook/internal/onrecord"
	"github.com/allocnet/allocnet/state"
)

// keepBridges runs an ADD of plugins, and sees to it that bridges which were there stay as they are. Those that accept router
// advertisements, as no bridge does that the plugin has made, are for one ADD at a time: it sets accept_ra to 0.
func (o *operation) keepBridges(ctx context.Context, list *libcni.NetworkConfigList, add func() error) error {
	bridges := onrecord.Bridges(list)
	if len(bridges) == 0 {
		return add()
	}
	unlock, err := o.store.LockBridges(ctx)
	if err != nil {
		return err
	}
	kept, err := o.recordBridges(bridges)
	if err != nil {
		unlock()
		return err
	}
	if len(kept) == 0 {
		unlock()
		return add()
	}
	defer unlock()
	err = add()
	for _, name := range kept {
		err = errors.Join(err, o.restoreBridge(name))
	}
	return err
}

// recordBridges records accept_ra of bridges, and returns those of which it is to be restored. What a killed process has
// recorded and not restored goes before what its plugin has set.
func (o *operation) recordBridges(bridges map[string]int) (kept []string, err error) {
	for name, mtu := range bridges {
		now, err := o.config.Host.KeepBridge(name, mtu)
		if err != nil {
			return nil, err
		}
		switch now {
		case "":
			continue
		case "0":
			now, err = o.store.AcceptRA(name)
		default:
			err = o.store.SetAcceptRA(name, now)
		}
		if err != nil {
			return nil, err
		}
		if now != "" {
			kept = append(kept, name)
		}
	}
	return kept, nil
}

// restoreBridge restores accept_ra of a bridge if it is on record. The caller holds the lock.
func (o *operation) restoreBridge(name string) error {
	had, err := o.store.AcceptRA(name)
	if err != nil || had == "" {
		return err
	}
	if err := o.config.Host.RestoreBridge(name, had); err != nil {
		return err
	}
	return o.store.SetAcceptRA(name, "")
}

// restoreBridges restores what the ADD of a killed process left of the bridges of an attachment.
func (o *operation) restoreBridges(ctx context.Context, a state.Attachment, list *libcni.NetworkConfigList) error {
	if a.Executor == state.InProcess {
		return nil
	}
	for name := range onrecord.Bridges(list) {
		if had, err := o.store.AcceptRA(name); err != nil || had == "" {
			continue // ADD says what is wrong
		}
		unlock, err := o.store.LockBridges(ctx)
		if err != nil {
			return err
		}
		err = o.restoreBridge(name)
		unlock()
		if err != nil {
			return err
		}
	}
	return nil
}
