// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package hook

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/hashicorp/go-hclog"

	"github.com/allocnet/allocnet/state"
)

// noOp is the Hook of allocations that use the host's network. It attaches
// nothing. New has bridged traffic pass iptables, on which the port mappings of
// other allocations rely.
type noOp struct{}

var _ Hook = noOp{}

// bridgeSysctls are off after boot, and absent without the br_netfilter module.
var bridgeSysctls = []string{"bridge-nf-call-iptables", "bridge-nf-call-ip6tables"}

// filterBridges turns the sysctls on. A failure is a warning: allocations on the
// host's network work without.
func filterBridges(log hclog.Logger, dir string) {
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		if out, err := exec.Command("modprobe", "br_netfilter").CombinedOutput(); err != nil {
			log.Debug("load br_netfilter", "error", err, "output", string(out))
		}
	}
	for _, name := range bridgeSysctls {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("1"), 0); err != nil {
			log.Warn("bridged traffic may pass iptables by; run: modprobe br_netfilter && sysctl -w net.bridge."+name+"=1", "error", err)
		}
	}
}

// filtersBridges tells whether the sysctl of IPv4 is on.
func filtersBridges(dir string) bool {
	value, err := os.ReadFile(filepath.Join(dir, bridgeSysctls[0]))
	return err == nil && strings.TrimSpace(string(value)) == "1"
}

// Setup accepts an allocation that asks for no network.
func (noOp) Setup(_ context.Context, r Request) (*Allocation, error) {
	if err := state.ValidateID(r.ID); err != nil {
		return nil, err
	}
	if r.Primary != nil || len(r.Networks)+len(r.Defaults) > 0 {
		return nil, &RequestError{"networks", r.ID, "an allocation on the host's network has no attachments: leave its networks out, or use the hook \"cni\""}
	}
	return &Allocation{ID: r.ID, Netns: r.Netns}, nil
}

// Teardown does nothing.
func (noOp) Teardown(context.Context, string) error { return nil }

// Check finds nothing to check.
func (noOp) Check(context.Context, string) ([]Checked, error) { return nil, nil }

// Status knows no allocation: none is recorded.
func (noOp) Status(_ context.Context, id string) (*Allocation, error) {
	return nil, fmt.Errorf("allocation %s %w: the hook \"noop\" records none", id, state.ErrNotFound)
}

// GC finds nothing to collect.
func (noOp) GC(context.Context, GCRequest) (*Collected, error) {
	return &Collected{}, nil
}
