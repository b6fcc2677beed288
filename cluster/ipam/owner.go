// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package ipam

import (
	"fmt"
	"net/netip"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Owner is an attachment, as CNI identifies it.
type Owner struct {
	ContainerID string `json:"containerID"`
	Interface   string `json:"interface"`
}

// Request is what an attachment asks a pool for.
type Request struct {
	Owner Owner
	// Addresses are requested ones, each in a reserved range of the pool. Empty: any.
	Addresses []netip.Addr
	// Job is the allocation's. Zero: the runtime is not Nomad.
	Job Job
	// Published is whether the addresses are for an interface of the host, and there are no others.
	Published bool
}

// Job says for whom an address is, in Nomad's words.
type Job struct {
	// Namespace, Job and Group are those of the job, and Allocation is the allocation's ID.
	Namespace  string `json:"namespace,omitempty"`
	Job        string `json:"job,omitempty"`
	Group      string `json:"group,omitempty"`
	Allocation string `json:"allocation,omitempty"`
	// Key distinguishes the allocations of a group, for sticky addresses: the index of the
	// allocation, or what the job passes. Empty: none.
	Key string `json:"key,omitempty"`
}

// longestKey is the length of the longest key, in bytes.
const longestKey = 128

// ValidateKey limits what a job writes to the store, which has room for 64 KiB, and to the
// terminals of operators. Its error is ErrInvalid.
func ValidateKey(key string) error {
	if len(key) <= longestKey && !strings.ContainsFunc(key, func(c rune) bool { return c == utf8.RuneError || !unicode.IsPrint(c) }) {
		return nil
	}
	return fmt.Errorf("%w: address key %.40q, %d bytes: want at most %d bytes of printable UTF-8", ErrInvalid, key, len(key), longestKey)
}

// Assigned is an address of an attachment.
type Assigned struct {
	// Address has the prefix length of its subnet.
	Address netip.Prefix
	// Gateway is not valid if the range has none.
	Gateway netip.Addr
}
