// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package hook

import (
	"context"
	"errors"
	"fmt"

	"github.com/containernetworking/cni/libcni"
	"github.com/containernetworking/cni/pkg/version"

	"github.com/allocnet/allocnet/cniconf"
)

// ErrNoStatus is a network whose version of the specification has no STATUS.
var ErrNoStatus = errors.New("cniVersion has no STATUS")

// Ready asks a network's plugins whether they could serve an ADD (CNI 1.1,
// STATUS). The error is the first that a plugin gives, with its code, or
// ErrNoStatus below version 1.1.0; that of cniconf.Network.CheckRouted comes before.
func (e *Engine) Ready(ctx context.Context, n *cniconf.Network) error {
	return ready(ctx, e.networkChain(n).cni, n)
}

// Ready is Engine.Ready without an engine, and so without a state directory.
func Ready(ctx context.Context, c Config, n *cniconf.Network) error {
	c = c.withDefaults()
	e := &Engine{config: c}
	return e.Ready(ctx, n)
}

func ready(ctx context.Context, cni *libcni.CNIConfig, n *cniconf.Network) error {
	if err := n.CheckRouted(); err != nil {
		return err
	}
	if supported, err := version.GreaterThanOrEqualTo(n.List.CNIVersion, "1.1.0"); err != nil || !supported {
		return fmt.Errorf("network %q: %w: %s", n.Name, ErrNoStatus, n.List.CNIVersion)
	}
	if err := cni.GetStatusNetworkList(ctx, n.List); err != nil {
		return fmt.Errorf("network %q is not ready: %w", n.Name, err)
	}
	return nil
}
