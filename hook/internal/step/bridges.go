// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package step

import (
	"context"
	"errors"

	"github.com/allocnet/allocnet/hook/internal/onrecord"
	"github.com/allocnet/allocnet/state"
)

// bridges keeps bridges of the host as they are, which plugins that are executed change.
var bridges = step{Around: keepBridges, Undo: restoreBridges}

// keepBridges runs an ADD of plugins, and sees to it that bridges which were there stay as they are. Those that accept router
// advertisements, as no bridge does that the plugin has made, are for one ADD at a time: it sets accept_ra to 0.
func keepBridges(ctx context.Context, w *Work, c Call, add func() error) error {
	names := onrecord.Bridges(c.List)
	if c.InProcess || len(names) == 0 {
		return add()
	}
	unlock, err := w.Store.Bridges().Lock(ctx)
	if err != nil {
		return err
	}
	kept, err := recordBridges(w, names)
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
		err = errors.Join(err, restoreBridge(w, name))
	}
	return err
}

// recordBridges records accept_ra of bridges, and returns those of which it is to be restored. What a killed process has
// recorded and not restored goes before what its plugin has set.
func recordBridges(w *Work, names map[string]int) (kept []string, err error) {
	for name, mtu := range names {
		now, err := w.Host.KeepBridge(name, mtu)
		if err != nil {
			return nil, err
		}
		switch now {
		case "":
			continue
		case "0":
			now, err = w.Store.Bridges().AcceptRA(name)
		default:
			err = w.Store.Bridges().SetAcceptRA(name, now)
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
func restoreBridge(w *Work, name string) error {
	had, err := w.Store.Bridges().AcceptRA(name)
	if err != nil || had == "" {
		return err
	}
	if err := w.Host.RestoreBridge(name, had); err != nil {
		return err
	}
	return w.Store.Bridges().SetAcceptRA(name, "")
}

// restoreBridges restores what the ADD of a killed process left of the bridges of an attachment.
func restoreBridges(ctx context.Context, w *Work, a state.Attachment) {
	if a.Executor == state.InProcess {
		return
	}
	list, err := onrecord.List(a)
	if err != nil { // DEL says what is wrong
		return
	}
	for name := range onrecord.Bridges(list) {
		if had, err := w.Store.Bridges().AcceptRA(name); err != nil || had == "" {
			continue // ADD says what is wrong
		}
		if err := restoreLocked(ctx, w, name); err != nil {
			w.log(a).Warn("a bridge does not accept router advertisements as before", "error", err)
			return
		}
	}
}

func restoreLocked(ctx context.Context, w *Work, bridge string) error {
	unlock, err := w.Store.Bridges().Lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	return restoreBridge(w, bridge)
}
