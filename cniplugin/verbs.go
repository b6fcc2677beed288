// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package cniplugin

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"github.com/containernetworking/cni/pkg/skel"
	"github.com/containernetworking/cni/pkg/types"

	"github.com/allocnet/allocnet/cleanup"
	"github.com/allocnet/allocnet/hook"
	"github.com/allocnet/allocnet/internal/netns"
	"github.com/allocnet/allocnet/networkstatus"
)

// add attaches the container and prints the result. A failure after the attachments
// are made removes them.
func add(r *request) error {
	setup, err := r.setup()
	if err != nil {
		return err
	}
	if err := r.admit(); err != nil {
		return err
	}
	allocation := &hook.Allocation{ID: setup.ID}
	if !empty(setup) {
		if allocation, err = r.engine.Setup(r.ctx, setup); err != nil {
			return err
		}
	}
	err = r.publish(allocation, setup)
	if err != nil && !empty(setup) {
		undoing, stop := hook.Undoing(r.ctx)
		defer stop()
		err = errors.Join(err, r.engine.Teardown(undoing, setup.ID))
	}
	return err
}

// admit refuses a call that would succeed with a broken network.
func (r *request) admit() error {
	own, err := netns.IsOwn(r.args.Netns)
	if err != nil {
		return refuse(types.ErrInvalidNetNS, err.Error())
	}
	if own {
		return refuse(types.ErrInvalidNetNS, fmt.Sprintf("CNI_NETNS %s is the host's own namespace: want the container's", r.args.Netns))
	}
	return r.admitConf()
}

// admitConf refuses a plugin configuration without one main network, and one that
// loses ports or addresses.
func (r *request) admitConf() error {
	switch {
	case r.conf.primary == nil && r.conf.PrevResult == nil:
		return invalid(errors.New("no main network: set \"primary\" or \"delegates\", or put a plugin before it in \"plugins\""))
	case r.conf.primary != nil && r.conf.PrevResult != nil:
		return invalid(fmt.Errorf("primary %q: the plugins before it set up the main network, too: remove the primary or these plugins", r.conf.primary.Name))
	case r.conf.primary == nil && r.conf.Result == "all":
		return invalid(errors.New("result \"all\" after other plugins: their CHECK would fail on the addresses of the extra networks: remove it"))
	}
	return r.admitPorts()
}

// admitPorts refuses a plugin configuration without the capability portMappings if
// the primary network maps ports: the runtime would not pass the job's ports.
func (r *request) admitPorts() error {
	if r.conf.primary == nil || r.conf.Capabilities["portMappings"] {
		return nil
	}
	catalog, err := r.engine.Catalog()
	if err != nil {
		return err
	}
	n, err := catalog.Lookup(r.conf.primary.Name)
	if err != nil {
		return err
	}
	if slices.Contains(n.Capabilities(), "portMappings") {
		return invalid(fmt.Errorf("\"capabilities\" lacks portMappings, which network %q has: the runtime would not pass the ports of a job: run allocnet conf generate", n.Name))
	}
	return nil
}

// publish writes the files for the tasks, and the result for the runtime.
func (r *request) publish(a *hook.Allocation, setup hook.Request) error {
	result, err := r.result(a)
	if err != nil {
		return err
	}
	if err := r.writeFiles(a, setup); err != nil {
		return err
	}
	if result, err = result.GetAsVersion(r.conf.CNIVersion); err != nil {
		return err
	}
	return result.PrintTo(&r.printed)
}

func (r *request) writeFiles(a *hook.Allocation, setup hook.Request) error {
	if r.conf.AllocDir == "" {
		return nil
	}
	dir, err := networkstatus.SharedDir(r.conf.AllocDir, a.ID)
	if err != nil {
		return err
	}
	err = networkstatus.Write(dir, a)
	switch {
	case err == nil || !errors.Is(err, fs.ErrNotExist):
		return err
	case setup.Identity.Namespace == "":
		r.log.Warn("no "+networkstatus.File+": the container is not an allocation of this client", "allocDir", r.conf.AllocDir)
		return nil
	}
	return invalid(fmt.Errorf("allocDir %q: %s does not exist: set allocDir to the alloc_dir of the Nomad client (default: alloc in its data_dir), for example with allocnet conf generate", r.conf.AllocDir, dir))
}

// del tears down what is on record. The plugin configuration may have changed since
// ADD. Runtimes repeat DEL, also for containers that are not set up. What another conflist, or interface, has set up stays.
func del(r *request) error {
	owned, err := r.engine.TeardownOwned(r.ctx, r.args.ContainerID, r.owner())
	if err != nil || !owned || r.conf.AllocDir == "" {
		return err
	}
	dir, err := networkstatus.SharedDir(r.conf.AllocDir, r.args.ContainerID)
	if err != nil {
		return err
	}
	return networkstatus.Remove(dir)
}

// check fails only for proven damage of the container's network, because Nomad then
// deletes the namespace without DEL, under running tasks. It needs only the record:
// neither the agent, nor any plugin configuration but the state directory.
func check(ctx context.Context, c Call, args *skel.CmdArgs) ([]byte, error) {
	r, err := c.newRequest(ctx, args, false)
	if err != nil {
		_, _ = fmt.Fprintf(c.Log, "%s: CHECK of %s cannot tell whether the network is damaged, and passes: %s\n", Name, args.ContainerID, line(err)) // there is no log yet
		return nil, nil
	}
	defer r.close()
	err = r.engine.Verify(r.ctx, hook.Verification{ID: args.ContainerID, Owner: r.owner(), Netns: args.Netns, Interface: args.IfName})
	return nil, r.outcome(err)
}

// status reports whether an ADD could succeed now: whether the networks that every
// container gets are ready.
func status(r *request) error {
	catalog, err := r.engine.Catalog()
	if err != nil {
		return err
	}
	elements := r.conf.defaults
	if r.conf.primary != nil {
		elements = append(slices.Clone(elements), *r.conf.primary)
	}
	usable := r.conf.engineConfig().Usable(catalog)
	for _, e := range elements {
		n, err := usable.Lookup(e.Name)
		if err == nil {
			err = r.engine.Ready(r.ctx, n)
		}
		if err != nil && !errors.Is(err, hook.ErrNoStatus) {
			return refuse(types.ErrPluginNotAvailable, line(err))
		}
	}
	return nil
}

// gc tears down the allocations whose namespaces are missing, except those that the runtime
// lists as valid, then runs GC of the networks' plugins. A list that lacks an allocation whose
// namespace exists is no proof that it is dead, and no list is not an empty one.
func gc(r *request) error {
	if r.conf.Valid == nil {
		return refuse(types.ErrInvalidNetworkConfig, `"cni.dev/valid-attachments" is missing: want the list of valid attachments; nothing is removed`)
	}
	live := func(id string) string {
		if slices.ContainsFunc(r.conf.Valid, func(a types.GCAttachment) bool { return a.ContainerID == id }) {
			return "cni.dev/valid-attachments"
		}
		return ""
	}
	_, err := r.engine.GC(r.ctx, hook.GCRequest{
		Live:  func(context.Context) (cleanup.Live, error) { return live, nil },
		Leaks: hook.IgnoreLeaks,
	})
	return err
}
