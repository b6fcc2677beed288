// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package driver

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/allocnet/allocnet/internal/netns"
	"github.com/allocnet/allocnet/nomad/driver/proto"
	"github.com/allocnet/allocnet/state"
)

// watch fails the task when one of its interfaces disappears, so that Nomad restarts
// it. It opens the namespace for each check only: an open namespace would outlive
// its allocation, with its interfaces.
func (d *driver) watch(ctx context.Context, t *task) {
	ticker := time.NewTicker(d.interval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		lost, err := t.lostInterface()
		switch {
		case err != nil:
			d.log.Warn("cannot read the interfaces of a task", "allocation", t.config.AllocId, "task", t.config.Name, "error", err)
		case lost != "":
			d.events.emit(t.config, nil, "%s", lost)
			t.end(&proto.ExitResult{ExitCode: 1}, lost)
			return
		}
	}
}

// lostInterface returns a description of a missing interface or namespace, empty if
// none is missing. With an error it is unknown.
func (t *task) lostInterface() (lost string, err error) {
	present, err := t.interfaces()
	if errors.Is(err, netns.ErrMissing) {
		return err.Error(), nil
	}
	if err != nil {
		return "", err
	}
	for _, n := range t.attached {
		if !slices.ContainsFunc(present, func(i netns.Interface) bool { return i.Name == n.Interface }) {
			return fmt.Sprintf("interface %s of network %s is gone", n.Interface, n.Network), nil
		}
	}
	return "", nil
}

// interfaces returns the interfaces of the namespace in which the task was started.
func (t *task) interfaces() ([]netns.Interface, error) {
	ns, err := state.Allocation{Netns: isolationOf(t.config).Path, NetnsID: t.saved.NetnsID}.Namespace()
	if err != nil {
		return nil, err
	}
	defer ns.Close() //nolint:errcheck // read only
	return ns.Interfaces()
}

// traffic describes the traffic of each interface.
func (t *task) traffic() map[string]string {
	texts := map[string]string{}
	present, err := t.interfaces()
	if err != nil {
		return texts // unknown
	}
	for _, i := range present {
		texts[i.Name] = fmt.Sprintf(", %d bytes received, %d sent", i.Received, i.Sent)
	}
	return texts
}
