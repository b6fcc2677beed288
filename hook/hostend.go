// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package hook

import (
	"slices"

	"github.com/containernetworking/cni/libcni"
	types "github.com/containernetworking/cni/pkg/types/100"

	"github.com/allocnet/allocnet/state"
)

// hostEnd returns the end on the host of an attachment's veth pair, which plugins that make one report
// before the end inside; nil if they report none.
func hostEnd(a state.Attachment) (*types.Interface, error) {
	result, err := parseResult(a.Result)
	if err != nil {
		return nil, err
	}
	list, err := recordedList(a)
	if err != nil {
		return nil, err
	}
	inside := slices.IndexFunc(result.Interfaces, func(i *types.Interface) bool { return i.Sandbox != "" && i.Name == a.Interface })
	if inside < 1 {
		return nil, nil //nolint:nilnil // there is none
	}
	end := result.Interfaces[inside-1]
	shared := slices.ContainsFunc(list.Plugins, func(p *libcni.PluginConfig) bool {
		conf, err := decodePlugin(p)
		return err != nil || conf.link() == end.Name
	})
	if end.Sandbox != "" || end.Mac == "" || shared {
		return nil, nil //nolint:nilnil // as above
	}
	return end, nil
}

// findEnd returns the name that the end of a pair on the host has now; empty if it is gone. An operator may have renamed
// it.
func findEnd(host Host, end *types.Interface) (string, error) {
	_, there, err := host.LinkMTU(end.Name)
	if err != nil || there {
		return end.Name, err
	}
	return host.FindLink(end.Name, "veth", end.Mac)
}
