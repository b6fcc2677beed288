// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package cleanup

import (
	"crypto/sha512"
	"encoding/hex"
	"fmt"
	"regexp"
)

// The names that the reference plugins (v1.9.1) give to what they make are
// hashes of network and container ID.

func hash(text string, length int) string {
	sum := sha512.Sum512([]byte(text))
	return hex.EncodeToString(sum[:])[:length]
}

// masqueradeChain is the nat chain of bridge and ptp.
func masqueradeChain(o Owner) string { return "CNI-" + hash(o.Network+o.ContainerID, 24) }

// portChain is the nat chain of portmap.
func portChain(o Owner) string { return "CNI-DN-" + hash(o.Network+o.ContainerID, 21) }

// ifbDevice is the device of bandwidth.
func ifbDevice(o Owner) string { return "bwp" + hash(o.Network+o.ContainerID, 12) }

// instance begins the comment of a masquerade rule in nftables.
func instance(o Owner) string {
	return hash(o.Network, 16) + "-" + hash(o.Interface+":"+o.ContainerID, 16)
}

var (
	chainForm   = regexp.MustCompile(`^CNI-([0-9a-f]{24}|DN-[0-9a-f]{21})$`)
	ifbForm     = regexp.MustCompile(`^bwp[0-9a-f]{12}$`)
	ruleComment = regexp.MustCompile(`^(dnat )?name: "([a-zA-Z0-9][\w.-]*)" id: "([a-zA-Z0-9][\w.-]*)"$`)
	nftComment  = regexp.MustCompile(`^([0-9a-f]{16}-[0-9a-f]{16}), net: ([a-zA-Z0-9][\w.-]*), if: ([^\s/]+), id: ([a-zA-Z0-9][\w.-]*)$`)
)

// chainOwner returns whom a comment names as the owner of a chain. The chain's
// name has to say the same.
func chainOwner(chain, comment string) (Owner, bool) {
	match := ruleComment.FindStringSubmatch(comment)
	if match == nil {
		return Owner{}, false
	}
	o := ownerOf(match[2], match[3], "")
	return o, chain == masqueradeChain(o) || chain == portChain(o)
}

// instanceOwner returns whom the comment of a masquerade rule in nftables
// names. The hash at its beginning has to say the same, which it cannot where
// the plugin cut a long comment off; then only the hash is returned.
func instanceOwner(comment string) (o Owner, key string) {
	const hashes = 33
	if match := nftComment.FindStringSubmatch(comment); match != nil {
		o := ownerOf(match[2], match[4], match[3])
		if instance(o) == match[1] {
			return o, match[1]
		}
	}
	return Owner{}, comment[:min(hashes, len(comment))]
}

// attribute gives an owner to the objects that show a hash only, or only a
// container ID, from what else is known. Names that two container IDs can have
// stay without: tuning joins container ID and interface by '_', and the hashes
// are of network and container ID in one word.
func attribute(objects []Object, known []Owner) {
	byKey := map[string]Owner{}
	ambiguous := map[string]bool{}
	networks := map[string]string{}
	for _, o := range known {
		if o.Network == "" || o.ContainerID == "" {
			continue
		}
		for _, key := range []string{masqueradeChain(o), portChain(o), ifbDevice(o), instance(o), tuningFile(o)} {
			if other, taken := byKey[key]; taken && other.ContainerID != o.ContainerID {
				ambiguous[key] = true
			}
			byKey[key] = o
		}
		networks[o.ContainerID] = o.Network
	}
	for i := range objects {
		object := &objects[i]
		if owner, ok := byKey[object.key]; ok && !ambiguous[object.key] {
			object.Owner = owner
		} else if ok && object.Kind == Tuning { // its name is all that there is
			object.Owner = Owner{}
		}
		if object.Owner.Network == "" {
			object.Owner.Network = networks[object.Owner.ContainerID]
		}
	}
}

// owners returns the owners that objects name in full.
func owners(objects []Object) []Owner {
	var list []Owner
	for _, o := range objects {
		if o.Owner.Network != "" && o.Owner.ContainerID != "" {
			list = append(list, o.Owner)
		}
	}
	return list
}

func tuningFile(o Owner) string { return fmt.Sprintf("%s_%s.json", o.ContainerID, o.Interface) }
