// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package portmap

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/allocnet/allocnet/internal/acd"
	"github.com/allocnet/allocnet/internal/inprocess/plugin"
	"github.com/allocnet/allocnet/internal/netns"
)

// floating are addresses of a pool that the host has while it runs the allocation, for its ports. The pool has them on record for the
// attachment before the host gets them, and until it has them no more: cluster/ipam/reserved. Only the engine writes the key.
type floating struct {
	Addresses []netip.Addr `json:"addresses"`
	// Interface of the host gets the addresses.
	Interface string          `json:"interface"`
	IPAM      json.RawMessage `json:"ipam"`
}

// ownIPAM is the type of the IPAM plugin of the pool.
const ownIPAM = "allocnet-ipam"

// call returns that of the IPAM plugin. A repair has it keep the addresses from DEL to ADD.
func (f *floating) call(ctx context.Context, c *plugin.Call) (*plugin.Call, error) {
	var asked struct {
		Args struct {
			Allocnet struct {
				KeepAddresses bool `json:"keepAddresses"`
			} `json:"allocnet"`
		} `json:"args"`
	}
	if err := json.Unmarshal(c.Config, &asked); err != nil {
		return nil, err
	}
	own := map[string]any{"publish": f.Addresses}
	if asked.Args.Allocnet.KeepAddresses {
		own["keepAddresses"] = true
	}
	config, err := json.Marshal(map[string]any{
		"cniVersion": c.Version, "name": c.Network, "type": "portmap", "ipam": f.IPAM, "args": map[string]any{"allocnet": own},
	})
	call := *c
	call.Ctx, call.Config = ctx, config
	return &call, err
}

// answerTime is left of the time for a call to say what was waited for in vain.
const answerTime = 2 * time.Second

// acquire has the pool give the addresses to the attachment. It waits until the host that has them gives them back.
func (f *floating) acquire(ctx context.Context, c *plugin.Call) error {
	if deadline, ok := ctx.Deadline(); ok {
		limited, stop := context.WithDeadline(ctx, deadline.Add(-answerTime))
		defer stop()
		ctx = limited
	}
	call, err := f.call(ctx, c)
	if err != nil {
		return err
	}
	_, err = call.AddIPAM(ownIPAM)
	return err
}

// publish gives the addresses to the interface, and tells its neighbours.
func (f *floating) publish() error {
	for _, address := range f.Addresses {
		if err := netns.Publish(f.Interface, address); err != nil {
			return err
		}
	}
	return acd.Announce(f.Interface, f.Addresses)
}

// missing returns the addresses that the interface does not have.
func (f *floating) missing() (missing []netip.Addr, err error) {
	published, err := netns.Published()
	for _, address := range f.Addresses {
		if err == nil && published[address] != f.Interface {
			missing = append(missing, address)
		}
	}
	return missing, err
}

func (f *floating) lacks(address netip.Addr) string {
	return fmt.Sprintf("interface %s of the host lacks the published address %s", f.Interface, address)
}

// repairTimeout is how long a repair waits for the pool, which knows at once what this host has.
const repairTimeout = answerTime + time.Second

// repair publishes what is missing, if the pool still has it for the attachment.
func (f *floating) repair(c *plugin.Call) error {
	missing, err := f.missing()
	for _, address := range missing {
		err = errors.Join(err, c.Repair.Ensure(f.lacks(address), func() error {
			ctx, stop := context.WithTimeout(c.Ctx, repairTimeout)
			defer stop()
			if err := f.acquire(ctx, c); err != nil {
				return err
			}
			return f.publish()
		}))
	}
	return err
}
