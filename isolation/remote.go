// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package isolation

import (
	"net/netip"
	"time"
)

// Remote are attachments on another host that rules do not tell from one another, as that host has told.
type Remote struct {
	// Host is what people call it.
	Host    string `json:"host"`
	Network string `json:"network"`
	Level   Level  `json:"level"`

	Namespace string `json:"namespace,omitempty"`
	Job       string `json:"job,omitempty"`
	Group     string `json:"group,omitempty"`
	// Index is their number in the group. Nil: unknown.
	Index *uint32 `json:"index,omitempty"`

	Addresses []netip.Addr `json:"addresses"`
	// Via is the interface of this host by which their packets are routed. Empty: none is known, and none is theirs.
	Via string `json:"via,omitempty"`
	// Confirmed is when their host has told so last.
	Confirmed time.Time `json:"confirmed"`
}

// MostUnconfirmed is for how long it is known whose attachments on another host are. What they are of longer ago may have been
// given to another job.
const MostUnconfirmed = 20 * time.Hour

// At returns what is known of them at a time.
func (r Remote) At(now time.Time) Remote {
	if now.Sub(r.Confirmed) > MostUnconfirmed {
		r.Namespace, r.Job, r.Group, r.Index = "", "", "", nil
	}
	return r
}

// Members returns each of them, as rules see it.
func (r Remote) Members() []Member {
	all := make([]Member, len(r.Addresses))
	for i := range r.Addresses {
		all[i] = Member{
			ID: RemoteID(r.Addresses[i].String()), Host: r.Host, Network: r.Network, Level: r.Level,
			Namespace: r.Namespace, Job: r.Job, Group: r.Group, Index: r.Index, Addresses: r.Addresses[i : i+1 : i+1],
		}
	}
	return all
}

// remotePrefix begins the IDs of attachments on other hosts, and no container ID.
const remotePrefix = "@"

// RemoteID is the ID that an attachment has where it is one elsewhere.
func RemoteID(id string) string { return remotePrefix + id }

// IsRemote tells whether an ID is that of an attachment on another host.
func IsRemote(id string) bool { return len(id) > 0 && id[:1] == remotePrefix }
