// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package inspect

import (
	"slices"
	"strings"

	"github.com/containernetworking/cni/libcni"

	"github.com/allocnet/allocnet/cniconf"
	"github.com/allocnet/allocnet/hook/internal/onrecord"
	"github.com/allocnet/allocnet/internal/netns"
	"github.com/allocnet/allocnet/state"
)

// Absence is that of the interface which ADD has made for an attachment.
type Absence int

const (
	// Present is that the interface is there, or may be.
	Present Absence = iota
	// Gone is that the namespace has none of the name.
	Gone
	// Replaced is that the namespace has another one of the name, which is not the attachment's to remove, or may have one
	// when a plugin looks, which takes it for a device of the host: see goesByIndex.
	Replaced
)

// Absences returns those of interfaces before DEL, by name. err is why the namespace cannot be read; covers tells what forced
// cleanup covers. Plugins report success when an interface is gone, and leave
// its rules; they remove another one that has its name. Without the namespace all are gone; if it cannot be
// read, none.
func Absences(path string, interfaces []netns.Interface, err error, attachments []state.Attachment, covers func(state.Attachment) bool) map[string]Absence {
	absences := map[string]Absence{}
	for _, a := range attachments {
		at := netns.Index(interfaces, a.Interface)
		switch {
		case path == "":
			absences[a.Interface] = Gone
		case err == nil && at >= 0 && (!mayOwn(a, interfaces[at]) || goesByIndex(a, covers)), err == nil && at < 0 && hasAlternative(interfaces, a.Interface):
			absences[a.Interface] = Replaced
		case a.FormerResult != nil || err == nil && at < 0 && len(a.Result) > 0:
			absences[a.Interface] = Gone
		}
	}
	return absences
}

// PathOf returns what the plugins of an attachment get as CNI_NETNS for DEL. They remove the interface
// that has the name in the namespace, so that with another one there they get none.
func PathOf(path string, is Absence) string {
	if is == Replaced {
		return ""
	}
	return path
}

// mayOwn tells whether an interface that has the name of an attachment may be the attachment's. One that has
// another MAC is not if what its plugin makes has its link on the host, as the other end of a pair, and this has
// none outside of the namespace. Else a task may have changed the MAC, and nothing proves whose it is: then
// DEL removes it, as CNI requires.
func mayOwn(a state.Attachment, i netns.Interface) bool {
	if a.Planned && a.FormerResult != nil { // nothing of it is left: see RecordUndone
		return false
	}
	if a.DeviceKind != "" { // the plugin would name it after its alias, which a task may have changed
		return i.Index == a.DeviceIndex && i.Kind == a.DeviceKind && i.Alias == a.Device
	}
	seen, err := onrecord.ReadStatus(a)
	if err == nil && seen.MAC != "" && strings.EqualFold(seen.MAC, i.MAC) || onrecord.Shows(a, []netns.Interface{i}) {
		return true
	}
	list, err := onrecord.List(a)
	if err == nil && movesDevice(list) {
		return i.Alias != ""
	}
	return i.LinkOutside || err != nil || !makesOuterLink(a, list)
}

// goesByIndex tells whether forced cleanup gives the interface of an attachment back to the host by its index. Its plugin
// finds it by its name, and the name on the host in its alias: a task can change both after mayOwn has looked, and the
// host would get an interface of the task under a name that the task chooses. What forced cleanup does not know, as a
// lease of DHCP, the plugin has to remove.
func goesByIndex(a state.Attachment, covers func(state.Attachment) bool) bool {
	return a.DeviceKind != "" && covers(a)
}

// movesDevice tells whether the interface of an attachment is a device of the host, whose name the plugin keeps in
// its alias.
func movesDevice(list *libcni.NetworkConfigList) bool {
	return list.Plugins[0].Network.Type == "host-device"
}

// NoteDevice writes into the record of an attachment which device of the host its interface is, if it is one.
func NoteDevice(a *state.Attachment, list *libcni.NetworkConfigList, present []netns.Interface) {
	a.Device, a.DeviceIndex, a.DeviceKind = "", 0, ""
	if at := netns.Index(present, a.Interface); at >= 0 && movesDevice(list) {
		a.Device, a.DeviceIndex, a.DeviceKind = present[at].Alias, present[at].Index, present[at].Kind
	}
}

// makesOuterLink tells whether the interface of an attachment is known to have its link on the host.
func makesOuterLink(a state.Attachment, list *libcni.NetworkConfigList) bool {
	if end, err := onrecord.HostEnd(a, list); err == nil && end != nil {
		return true
	}
	first := cniconf.Chain(list)[0]
	return first.Type == "bridge" || first.Type == "ptp" || slices.Contains(onrecord.InnerMasterPlugins, first.Type) && !first.LinkInContainer
}

// hasAlternative tells whether an interface has an alternative name. Plugins take it for the one of that name.
func hasAlternative(present []netns.Interface, name string) bool {
	return slices.ContainsFunc(present, func(i netns.Interface) bool { return slices.Contains(i.AlternativeNames, name) })
}
