// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package ipam

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"github.com/containernetworking/cni/pkg/types"

	"github.com/allocnet/allocnet/internal/dhcp/client"
	"github.com/allocnet/allocnet/internal/inprocess/plugin"
)

// identityOf returns what servers get to know of an attachment.
func (c *dhcpConfig) identityOf(call *plugin.Call) (i client.Identity, err error) {
	if c.HostName == perJob {
		i.HostName = hostName(call.Lease.Job, call.Lease.Task)
	}
	i.ClientID, err = clientID(call, c.Identity)
	i.Shared = IsShared(i.ClientID, call.ContainerID)
	return i, err
}

// slashes replaces what separates the parts of an identifier: authors of jobs choose parts.
var slashes = strings.NewReplacer("%", "%25", "/", "%2F")

// maxClientID is the length of the longest identifier.
const maxClientID = 254

// clientID returns the identifier of the reference plugin, or that of the place that an allocation has in its job: its replacement has
// the same one. What is too long is hashed, so that it stays unique.
func clientID(c *plugin.Call, identity string) (string, error) {
	id := c.ContainerID + "/" + c.Network + "/" + c.IfName
	if identity == perJob {
		key, err := jobKey(c)
		if err != nil {
			return "", err
		}
		parts := []string{"nomad", c.Lease.Namespace, c.Lease.Job, c.Lease.Group, key, c.Network, c.IfName}
		for i, part := range parts { // else job "a/b" with group "c" would be job "a" with group "b/c"
			parts[i] = slashes.Replace(part)
		}
		id = strings.Join(parts, "/")
	}
	if len(id) > maxClientID {
		sum := sha256.Sum256([]byte(id))
		id = hex.EncodeToString(sum[:])
	}
	return id, nil
}

// jobKey returns what distinguishes the allocations of a group.
func jobKey(c *plugin.Call) (string, error) {
	if c.Lease.Namespace == "" || c.Lease.Job == "" || c.Lease.Group == "" {
		return "", types.NewError(types.ErrInvalidNetworkConfig, `identity of dhcp is "job", and the job of the allocation is not known: want an allocation of Nomad, or "identity": "allocation"`, "")
	}
	given := map[string]string{}
	for pair := range strings.SplitSeq(c.Args, ";") {
		if key, value, ok := strings.Cut(pair, "="); ok {
			given[key] = value
		}
	}
	for _, name := range []string{"ADDRESS_KEY", "NOMAD_ALLOC_INDEX"} {
		if given[name] != "" {
			return given[name], nil
		}
	}
	return "", types.NewError(types.ErrInvalidNetworkConfig, `identity of dhcp is "job", and CNI_ARGS have neither ADDRESS_KEY nor NOMAD_ALLOC_INDEX: want one, as in cni { args { ADDRESS_KEY = "${NOMAD_ALLOC_INDEX}" } }`, "")
}

// maxLabel is the length of the longest label of a name.
const maxLabel = 63

// hostName returns a label of DNS that job and task make; empty if they make none. A job's author chooses them.
func hostName(job, task string) string {
	name := job
	if task != "" {
		name += "-" + task
	}
	label := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9':
			return r
		case r >= 'A' && r <= 'Z':
			return r + 'a' - 'A'
		}
		return '-'
	}, name)
	label = strings.Trim(label, "-")
	return strings.TrimRight(label[:min(len(label), maxLabel)], "-")
}

// IsShared tells whether another interface may be the client that an attachment is known by, or have been it. That of a job begins as one of the
// allocation "nomad", and has more parts.
func IsShared(clientID, containerID string) bool {
	of, isOwn := strings.CutPrefix(clientID, containerID+"/")
	return !isOwn || strings.Count(of, "/") != 1
}
