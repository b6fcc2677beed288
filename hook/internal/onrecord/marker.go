// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package onrecord

import (
	"encoding/json"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/state"
)

// Marker is the top-level key "allocnet" of an attachment's conflist. libcni ignores
// it and keeps it in its cache, where it distinguishes our attachments from those of
// other runtimes when the records are lost.
type Marker struct {
	Attachment *markedAttachment `json:"attachment"`
	// Allocation is the attachment's, without the identity of its namespace.
	Allocation *state.Allocation `json:"allocation"`
}

type markedAttachment struct {
	Index     int         `json:"index"`
	Primary   bool        `json:"primary,omitempty"`
	Batch     state.Batch `json:"batch"`
	Task      string      `json:"task,omitempty"`
	DependsOn []string    `json:"dependsOn,omitempty"`
}

// NewMarker returns the marker of an attachment.
func NewMarker(allocation state.Allocation, a state.Attachment) (json.RawMessage, error) {
	return json.Marshal(Marker{&markedAttachment{
		Index: a.Index, Primary: a.Primary, Batch: a.Batch, Task: a.Task, DependsOn: a.DependsOn,
	}, &allocation})
}

// ReadMarker returns the marker of a conflist. Both fields are nil in that of another
// runtime.
func ReadMarker(conflist []byte) Marker {
	var conf struct {
		Marker Marker `json:"allocnet"`
	}
	if json.Unmarshal(conflist, &conf) != nil || conf.Marker.Attachment == nil || !conf.Marker.Attachment.Batch.Valid() {
		return Marker{}
	}
	return conf.Marker
}

// CacheName is the name of an attachment's file in libcni's cache.
func CacheName(a state.Attachment) string {
	return fmt.Sprintf("%s-%s-%s", a.Network, a.ContainerID, a.Interface)
}

// MaxCacheName is how long such a name can be: a file that is lost is written again under a
// temporary name, which is longer.
const MaxCacheName = unix.NAME_MAX - len(".") - len(".new")
