// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package step

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/containernetworking/cni/libcni"

	"github.com/allocnet/allocnet/cniconf"
	"github.com/allocnet/allocnet/hook/internal/onrecord"
	"github.com/allocnet/allocnet/internal/netns"
)

// innerMasters tells that a plugin has taken a master of the host in place of that in the namespace.
var innerMasters = step{Judge: checkInnerMaster}

// innerMaster returns the type and the master of the network's plugin whose master is an
// interface of the namespace.
func innerMaster(list *libcni.NetworkConfigList) (plugin, master string, found bool) {
	for _, p := range cniconf.Chain(list) {
		if p.LinkInContainer && slices.Contains(onrecord.InnerMasterPlugins, p.Type) {
			return p.Type, p.Master, true
		}
	}
	return "", "", false
}

// outerMaster returns the error of an ADD that looked for the master on the host: before 1.3.0, the
// CNI plugins ignore linkInContainer. err is that of the plugin; nil if the host has an interface
// of that name.
func outerMaster(plugin, master string, err error) error {
	const hint = "plugins older than 1.3.0 ignore linkInContainer: install newer CNI plugins"
	if err != nil {
		return fmt.Errorf("%w: the namespace has interface %s: %s", err, master, hint)
	}
	return fmt.Errorf("plugin %s took interface %s of the host as master, and not that of the namespace: %s", plugin, master, hint)
}

// checkInnerMaster judges the outcome of ADD of a network whose master is in the namespace.
func checkInnerMaster(w *Work, c Call, err error) error {
	plugin, master, found := innerMaster(c.List)
	if !found || err != nil && !strings.Contains(err.Error(), "Link not found") {
		return err
	}
	ns, nsErr := w.Namespace()
	if nsErr != nil {
		return errors.Join(err, nsErr)
	}
	interfaces, nsErr := ns.Interfaces()
	if nsErr != nil {
		return errors.Join(err, nsErr)
	}
	if isOuterMaster(interfaces, master, c.Attachment.Interface, err != nil) {
		return outerMaster(plugin, master, err)
	}
	return err
}

// isOuterMaster tells whether the plugin has looked for the master of an interface on the host. If
// it failed, that is so if the namespace has the master; without the interface, no other plugin
// of the chain has failed. A macvlan of a macvlan has the link of its master, which may be on the
// host.
func isOuterMaster(interfaces []netns.Interface, master, name string, failed bool) bool {
	find := func(name string) (netns.Interface, bool) {
		i := netns.Index(interfaces, name)
		if i < 0 {
			return netns.Interface{}, false
		}
		return interfaces[i], true
	}
	added, exists := find(name)
	inside, hasMaster := find(master)
	if failed {
		return hasMaster && !exists
	}
	return exists && added.LinkOutside && (!inside.LinkOutside || inside.Link != added.Link)
}
