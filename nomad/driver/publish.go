// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package driver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/allocnet/allocnet/hook"
	"github.com/allocnet/allocnet/networkstatus"
	"github.com/allocnet/allocnet/state"
)

// envFile is a file for tasks in the allocation's shared directory, next to
// networkstatus.File.
const envFile = "network.env"

// publish writes the attachments of an allocation to its shared directory. The
// networks work without the files, so a failure is only logged.
func (d *driver) publish(t *task) {
	if err := d.publishNow(t); err != nil {
		d.log.Warn("cannot write the network files of an allocation", "allocation", t.config.GetAllocId(), "error", err)
	}
}

func (d *driver) publishNow(t *task) error {
	engine, err := d.ready()
	if err != nil {
		return err
	}
	id := t.config.GetAllocId()
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
	return writeFiles(filepath.Join(t.config.GetAllocDir(), "alloc"), a)
}

// writeFiles writes both files of an allocation to its shared directory.
func writeFiles(dir string, a *hook.Allocation) error {
	status, err := json.MarshalIndent(a.NetworkStatus(), "", "  ")
	if err != nil {
		return err
	}
	shared, err := os.OpenRoot(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // the allocation is being removed
	}
	if err != nil {
		return err
	}
	defer shared.Close() //nolint:errcheck // a directory
	return errors.Join(networkstatus.Replace(shared, networkstatus.File, append(status, '\n')), networkstatus.Replace(shared, envFile, environment(a)))
}

// environment returns variables for a template with env = true. Each name ends in the
// name of the network, in which '_' replaces other characters than letters and
// digits, as in Nomad's variables. Of several attachments to one network it has the
// first.
func environment(a *hook.Allocation) []byte {
	var b strings.Builder
	seen := map[string]bool{}
	for _, n := range a.Attachments {
		name := variable(n.Network)
		if seen[name] {
			continue
		}
		seen[name] = true
		fmt.Fprintf(&b, "ALLOCNET_INTERFACE_%s=%s\n", name, n.Interface)
		fmt.Fprintf(&b, "ALLOCNET_MAC_%s=%s\n", name, n.MAC)
		fmt.Fprintf(&b, "ALLOCNET_MTU_%s=%d\n", name, n.MTU)
		if len(n.Addresses) > 0 {
			fmt.Fprintf(&b, "ALLOCNET_IP_%s=%s\n", name, n.Addresses[0].Addr())
			fmt.Fprintf(&b, "ALLOCNET_CIDRS_%s=%s\n", name, strings.ReplaceAll(joined(n.Addresses), " ", ""))
		}
	}
	return []byte(b.String())
}

func variable(network string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' {
			return r
		}
		return '_'
	}, network)
}
