// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package hook

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/containernetworking/cni/libcni"
	"github.com/containernetworking/cni/pkg/types"
	"github.com/containernetworking/cni/pkg/version"

	"github.com/allocnet/allocnet/cniconf"
	"github.com/allocnet/allocnet/state"
)

// gcNetworks runs the GC verb of CNI 1.1 on the networks that have it. Nothing is
// attached meanwhile: plugins would remove an attachment that they are not told of.
// Set-ups in flight and new ones have priority, because a GC can be repeated.
func (e *Engine) gcNetworks(ctx context.Context, scope func(network string) bool, c *Collected) error {
	networks, err := e.collectable(scope, c)
	if err != nil || len(networks) == 0 {
		return err
	}
	unlock, err := e.store.LockHost(ctx)
	if errors.Is(err, state.ErrAttaching) {
		c.skip(networks, err)
		return nil
	}
	if err != nil {
		return err
	}
	defer unlock()
	valid, err := e.validAttachments(ctx)
	var damaged *DamagedRecordError
	if errors.As(err, &damaged) {
		c.skip(networks, err)
		return nil
	}
	if err != nil {
		return err
	}
	ctx, stop := e.untilAttachmentWaits(ctx)
	defer stop()
	var errs []error
	for i, network := range networks {
		if errors.Is(context.Cause(ctx), errAttachmentWaits) {
			c.skip(networks[i:], errAttachmentWaits)
			break
		}
		err := e.gcNetwork(ctx, network, valid[network.Name])
		switch {
		case err == nil:
			c.Networks = append(c.Networks, network.Name)
		case errors.Is(context.Cause(ctx), errAttachmentWaits): // the loop ends with it
			c.skip(networks[i:i+1], errAttachmentWaits)
		default:
			errs = append(errs, fmt.Errorf("GC of network %q: %w", network.Name, err))
		}
	}
	return errors.Join(errs...)
}

func (e *Engine) gcNetwork(ctx context.Context, n *cniconf.Network, valid []types.GCAttachment) error {
	c := e.networkChain(n)
	err := c.cni.GCNetworkList(ctx, n.List, &libcni.GCArgs{ValidAttachments: valid})
	return errors.Join(err, e.commit(ctx, nil, e.log, c)[0])
}

// collectable returns the networks whose plugins have GC. Without a directory
// there are none.
func (e *Engine) collectable(scope func(network string) bool, c *Collected) ([]*cniconf.Network, error) {
	catalog, err := e.Catalog()
	if errors.Is(err, cniconf.ErrNoDir) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var networks []*cniconf.Network
	for _, network := range catalog.Networks {
		if !scope(network.Name) {
			continue
		}
		if why := noGC(network.List); why != "" {
			c.Skipped[network.Name] = why
			continue
		}
		networks = append(networks, network)
	}
	return networks, nil
}

func (c *Collected) skip(networks []*cniconf.Network, why error) {
	for _, network := range networks {
		c.Skipped[network.Name] = why.Error() + "; the next GC goes on"
	}
}

var errAttachmentWaits = errors.New("interrupted by an attachment that waits")

// untilAttachmentWaits returns a context that ends when an attachment waits for
// the lock that a collection holds.
func (e *Engine) untilAttachmentWaits(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	go func() {
		for sleep(ctx, 20*time.Millisecond) == nil {
			if e.store.AttachmentWaits() {
				cancel(errAttachmentWaits)
			}
		}
	}()
	return ctx, func() { cancel(nil) }
}

func noGC(list *libcni.NetworkConfigList) string {
	if list.DisableGC {
		return "the network has disableGC"
	}
	if supported, err := version.GreaterThanOrEqualTo(list.CNIVersion, "1.1.0"); err != nil || !supported {
		return fmt.Sprintf("cniVersion %s has no GC", list.CNIVersion)
	}
	return ""
}

// validAttachments returns for each network what its plugins must keep: what
// we have on record, and what libcni's cache has from other runtimes or with a
// namespace that still exists. A damaged record, which may lack one, is a
// *DamagedRecordError.
func (e *Engine) validAttachments(ctx context.Context) (map[string][]types.GCAttachment, error) {
	valid := map[string][]types.GCAttachment{}
	for record, err := range e.store.List(ctx) {
		if err != nil {
			return nil, err
		}
		if len(record.Damaged) > 0 {
			return nil, &DamagedRecordError{Allocation: record.Allocation.ID, Damaged: record.Damaged}
		}
		for _, a := range record.Attachments {
			valid[a.Network] = append(valid[a.Network], types.GCAttachment{ContainerID: a.ContainerID, IfName: a.Interface})
		}
	}
	cached, err := libcni.NewCNIConfigWithCacheDir(nil, e.config.CacheDir, nil).GetCachedAttachments("")
	if err != nil {
		return nil, fmt.Errorf("read libcni's cache: %w", err)
	}
	for _, entry := range cached {
		if readMarker(entry.Config).Attachment == nil || e.config.Namespaces.Exists(entry.NetNS) {
			valid[entry.Network] = append(valid[entry.Network], types.GCAttachment{ContainerID: entry.ContainerID, IfName: entry.IfName})
		}
	}
	return valid, nil
}
