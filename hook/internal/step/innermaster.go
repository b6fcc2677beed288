// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package step

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/allocnet/allocnet/cniconf"
	"github.com/allocnet/allocnet/hook/internal/onrecord"
	"github.com/allocnet/allocnet/internal/netns"
)

// innerMasters tells that a plugin has taken a master of the host in place of that in the namespace.
var innerMasters = step{Judge: checkInnerMaster}

// checkInnerMaster judges the outcome of ADD of a network whose master is in the namespace.
func checkInnerMaster(w *Work, c Call, err error) error {
	chain := cniconf.Chain(c.List)
	at := slices.IndexFunc(chain, func(p cniconf.Plugin) bool {
		return p.LinkInContainer && slices.Contains(onrecord.InnerMasterPlugins, p.Type)
	})
	if at < 0 || err != nil && !strings.Contains(err.Error(), "Link not found") {
		return err
	}
	plugin, master := chain[at].Type, chain[at].Master
	ns, nsErr := w.Namespace()
	if nsErr != nil {
		return errors.Join(err, nsErr)
	}
	interfaces, nsErr := ns.Interfaces()
	if nsErr != nil {
		return errors.Join(err, nsErr)
	}
	if isOuterMaster(interfaces, master, c.Attachment.Interface, err != nil) {
		const hint = "plugins older than 1.3.0 ignore linkInContainer: install newer CNI plugins"
		if err != nil {
			return fmt.Errorf("%w: the namespace has interface %s: %s", err, master, hint)
		}
		return fmt.Errorf("plugin %s took interface %s of the host as master, and not that of the namespace: %s", plugin, master, hint)
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
