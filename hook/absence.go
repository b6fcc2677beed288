// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package hook

import (
	"slices"
	"strings"

	"github.com/allocnet/allocnet/hook/internal/onrecord"
	"github.com/allocnet/allocnet/internal/netns"
	"github.com/allocnet/allocnet/state"
)

// absence is that of the interface which ADD has made for an attachment.
type absence int

const (
	// isPresent: the interface is there, or may be.
	isPresent absence = iota
	// isGone: the namespace has none of the name.
	isGone
	// isReplaced: the namespace has another one of the name, which is not the attachment's to remove, or may have one
	// when a plugin looks, which takes it for a device of the host: see goesByIndex.
	isReplaced
)

// absences returns those of interfaces before DEL, by name. Plugins report success when an interface is gone, and leave
// its rules; they remove another one that has its name. Without the namespace all are gone; if it cannot be
// read, none.
func (o *operation) absences(path string, attachments []state.Attachment) map[string]absence {
	absences := map[string]absence{}
	interfaces, err := o.interfaces()
	for _, a := range attachments {
		at := netns.Index(interfaces, a.Interface)
		switch {
		case path == "":
			absences[a.Interface] = isGone
		case err == nil && at >= 0 && (!mayOwn(a, interfaces[at]) || o.goesByIndex(a)), err == nil && at < 0 && hasAlternative(interfaces, a.Interface):
			absences[a.Interface] = isReplaced
		case a.FormerResult != nil || err == nil && at < 0 && len(a.Result) > 0:
			absences[a.Interface] = isGone
		}
	}
	return absences
}

func (o *operation) interfaces() ([]netns.Interface, error) {
	ns, err := o.namespace()
	if err != nil {
		return nil, err
	}
	return ns.Interfaces()
}

// pathOf returns what the plugins of an attachment get as CNI_NETNS for DEL. They remove the interface
// that has the name in the namespace, so that with another one there they get none.
func pathOf(path string, is absence) string {
	if is == isReplaced {
		return ""
	}
	return path
}

// mayOwn tells whether an interface that has the name of an attachment may be the attachment's. One that has
// another MAC is not if what its plugin makes has its link on the host, as the other end of a pair, and this has
// none outside of the namespace. Else a task may have changed the MAC, and nothing proves whose it is: then
// DEL removes it, as CNI requires.
func mayOwn(a state.Attachment, i netns.Interface) bool {
	if a.Planned && a.FormerResult != nil { // nothing of it is left: see recordUndone
		return false
	}
	if a.DeviceKind != "" { // the plugin would name it after its alias, which a task may have changed
		return i.Index == a.DeviceIndex && i.Kind == a.DeviceKind && i.Alias == a.Device
	}
	seen, err := onrecord.ReadStatus(a)
	if err == nil && seen.MAC != "" && strings.EqualFold(seen.MAC, i.MAC) || onrecord.Shows(a, []netns.Interface{i}) {
		return true
	}
	if movesDevice(a) {
		return i.Alias != ""
	}
	return i.LinkOutside || !makesOuterLink(a)
}

// goesByIndex tells whether forced cleanup gives the interface of an attachment back to the host by its index. Its plugin
// finds it by its name, and the name on the host in its alias: a task can change both after mayOwn has looked, and the
// host would get an interface of the task under a name that the task chooses. What forced cleanup does not know, as a
// lease of DHCP, the plugin has to remove.
func (o *operation) goesByIndex(a state.Attachment) bool {
	return a.DeviceKind != "" && o.config.Cleaner.Covers(a)
}

// movesDevice tells whether the interface of an attachment is a device of the host, whose name the plugin keeps in
// its alias.
func movesDevice(a state.Attachment) bool {
	list, err := onrecord.List(a)
	return err == nil && len(list.Plugins) > 0 && list.Plugins[0].Network.Type == "host-device"
}

// noteDevice writes into the record of an attachment which device of the host its interface is, if it is one.
func noteDevice(a *state.Attachment, present []netns.Interface) {
	a.Device, a.DeviceIndex, a.DeviceKind = "", 0, ""
	if at := netns.Index(present, a.Interface); at >= 0 && movesDevice(*a) {
		a.Device, a.DeviceIndex, a.DeviceKind = present[at].Alias, present[at].Index, present[at].Kind
	}
}

// makesOuterLink tells whether the interface of an attachment is known to have its link on the host.
func makesOuterLink(a state.Attachment) bool {
	if end, err := onrecord.HostEnd(a); err == nil && end != nil {
		return true
	}
	list, err := onrecord.List(a)
	if err != nil || len(list.Plugins) == 0 {
		return false
	}
	conf, err := onrecord.DecodePlugin(list.Plugins[0])
	if err != nil {
		return false
	}
	return conf.Type == "bridge" || conf.Type == "ptp" || slices.Contains(onrecord.InnerMasterPlugins, conf.Type) && !conf.LinkInContainer
}

// hasAlternative tells whether an interface has an alternative name. Plugins take it for the one of that name.
func hasAlternative(present []netns.Interface, name string) bool {
	return slices.ContainsFunc(present, func(i netns.Interface) bool { return slices.Contains(i.AlternativeNames, name) })
}
