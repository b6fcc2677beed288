// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package driver

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"

	"github.com/allocnet/allocnet/hook"
	"github.com/allocnet/allocnet/networkstatus"
	"github.com/allocnet/allocnet/state"
)

// publish writes the attachments of an allocation to its shared directory. The
// networks work without the files, so a failure is only logged.
func (d *driver) publish(t *task) {
	if err := d.publishNow(t); err != nil {
		d.log.Warn("cannot write the network files of an allocation", "allocation", t.config.AllocId, "error", err)
	}
}

func (d *driver) publishNow(t *task) error {
	engine, err := d.settings.ready()
	if err != nil {
		return err
	}
	id := t.config.AllocId
	ctx := context.Background()
	release, err := d.published.Lock(ctx, id)
	if err != nil {
		return err
	}
	defer release()
	a, err := engine.Status(ctx, id)
	if errors.Is(err, state.ErrNotFound) {
		a, err = &hook.Allocation{ID: id}, nil
	}
	if err != nil {
		return err
	}
	err = networkstatus.Write(filepath.Join(t.config.AllocDir, "alloc"), a)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // the allocation is being removed
	}
	return err
}
