// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package onrecord

import (
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/state"
)

// CacheName is the name of an attachment's file in libcni's cache.
func CacheName(a state.Attachment) string {
	return fmt.Sprintf("%s-%s-%s", a.Network, a.ContainerID, a.Interface)
}

// MaxCacheName is how long such a name can be: a file that is lost is written again under a
// temporary name, which is longer.
const MaxCacheName = unix.NAME_MAX - len(".") - len(".new")
