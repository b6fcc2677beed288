// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package hosts

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/allocnet/allocnet/allocation"
	"github.com/allocnet/allocnet/hook"
	"github.com/allocnet/allocnet/isolation"
	"github.com/allocnet/allocnet/networkstatus"
	"github.com/allocnet/allocnet/state"
)

// member is an allocation of this host that gets a file.
type member struct {
	namespace string
	// networks are in order, each one once.
	networks []string
	names    []name
	// told are the files with its own attachments, by name, and sum is that of them. Nil: they stay.
	told map[string][]byte
	sum  [sha256.Size]byte
}

// name is that of an address on a network.
type name struct {
	namespace, network string
	address            netip.Addr
	name               string
}

// memberOf returns an allocation as it is named, with its number in its group. One that has no number yet has no name.
func memberOf(a *hook.Allocation, index int, isNumbered bool) member {
	m := member{namespace: a.Identity.Namespace}
	for _, n := range a.Attachments {
		if n.Phase != state.Attached {
			continue
		}
		m.networks = append(m.networks, n.Network)
		for _, prefix := range n.Addresses {
			if isNumbered {
				m.names = append(m.names, name{m.namespace, n.Network, prefix.Addr(), nameOf(a.Identity.Job, index, n.Network)})
			}
		}
	}
	slices.Sort(m.networks)
	m.networks = slices.Compact(m.networks)
	return m
}

// tell sets the files with what is attached. They stay while an attachment is being made, maybe again, and where all are being removed: tasks
// would take what comes, or comes back, for what is there.
func (m *member) tell(a *hook.Allocation) (err error) {
	is := func(phases ...state.Phase) func(hook.Attachment) bool {
		return func(n hook.Attachment) bool { return slices.Contains(phases, n.Phase) }
	}
	if slices.ContainsFunc(a.Attachments, is(allocation.Adding, allocation.Reattaching)) || !slices.ContainsFunc(a.Attachments, is(allocation.Attached)) {
		return nil
	}
	whole := *a
	whole.Attachments = slices.DeleteFunc(slices.Clone(a.Attachments), is(allocation.Deleting, allocation.Pending))
	m.told, err = networkstatus.Contents(&whole)
	m.sum = sha256.Sum256(slices.Concat(m.told[networkstatus.File], m.told[networkstatus.EnvFile]))
	return err
}

// namesOf returns those of an attachment on another host; none if its host does not know them.
func namesOf(m isolation.Member) (names []name) {
	if m.Job == "" || m.Index == nil {
		return nil
	}
	for _, address := range m.Addresses {
		names = append(names, name{m.Namespace, m.Network, address, nameOf(m.Job, int(*m.Index), m.Network)})
	}
	return names
}

// group is what allocations with the same file have in common.
func (m member) group() string { return m.namespace + "\x00" + strings.Join(m.networks, "\x00") }

// sees tells whether a name is in the file.
func (m member) sees(n name) bool {
	return n.namespace == m.namespace && slices.Contains(m.networks, n.network) && !n.address.IsLinkLocalUnicast()
}

// file returns that of an allocation. It has what a resolver wants of /etc/hosts, too.
func (m member) file(all []name) []byte {
	var seen []name
	for _, n := range all {
		if m.sees(n) {
			seen = append(seen, n)
		}
	}
	slices.SortFunc(seen, func(a, b name) int {
		return cmp.Or(cmp.Compare(a.network, b.network), cmp.Compare(a.name, b.name), a.address.Compare(b.address))
	})
	var b strings.Builder
	b.WriteString("127.0.0.1 localhost\n::1 localhost\n")
	for _, n := range slices.Compact(seen) {
		fmt.Fprintf(&b, "%s %s\n", n.address, n.name)
	}
	return []byte(b.String())
}
