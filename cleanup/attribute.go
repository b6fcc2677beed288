// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package cleanup

import (
	"crypto/sha512"
	"encoding/hex"
	"regexp"
	"slices"
	"strings"

	"github.com/allocnet/allocnet/state"
)

// hashedName is a name that a plugin makes of a prefix and a hash of network
// and container ID.
type hashedName struct {
	prefix string
	// digits are the hexadecimal digits of the hash that it has.
	digits int
}

func hash(text string, length int) string {
	sum := sha512.Sum512([]byte(text))
	return hex.EncodeToString(sum[:])[:length]
}

func (n hashedName) of(o Owner) string { return n.prefix + hash(o.Network+o.ContainerID, n.digits) }

func (n hashedName) matches(name string) bool {
	digits, ok := strings.CutPrefix(name, n.prefix)
	return ok && len(digits) == n.digits && strings.Trim(digits, "0123456789abcdef") == ""
}

// parseOwner reads an owner from a comment or name, by the groups network, id
// and interface of the form. A group that is missing leaves its field empty. key
// is the group of that name.
func parseOwner(form *regexp.Regexp, text string) (o Owner, key string, ok bool) {
	match := form.FindStringSubmatch(text)
	if match == nil {
		return Owner{}, "", false
	}
	group := func(name string) string {
		if i := form.SubexpIndex(name); i >= 0 {
			return match[i]
		}
		return ""
	}
	if state.ValidateContainerID(group("id")) != nil {
		return Owner{}, group("key"), false
	}
	return ownerOf(group("network"), group("id"), group("interface")), group("key"), true
}

// attribute gives an owner to the objects that show only a key, or only a
// container ID, from the owners that are known. A key that two container IDs
// share identifies neither: tuning joins container ID and interface by '_', and
// the hashes are of network and container ID in one word.
func attribute(c catalog, objects []Object, known []Owner) {
	keys, networks := c.index(known)
	for i := range objects {
		object := &objects[i]
		match, ok := keys[object.key]
		switch {
		case ok && !match.ambiguous:
			object.Owner = match.Owner
		case ok && object.nameOnly:
			object.Owner = Owner{}
		}
		switch {
		case object.Owner.Network != "":
		case len(object.networks) > 0:
			object.Owner.Network = object.chooseNetwork(known)
		default:
			if object.networks = networks[object.Owner.ContainerID]; len(object.networks) == 1 {
				object.Owner.Network = object.networks[0]
			}
		}
	}
}

// chooseNetwork returns which of the networks that the object can belong to is that of its
// attachment; empty if that is not known.
func (o *Object) chooseNetwork(known []Owner) (network string) {
	for _, k := range known {
		if k.ContainerID != o.Owner.ContainerID || o.Owner.Interface != "" && k.Interface != o.Owner.Interface || !slices.Contains(o.networks, k.Network) {
			continue
		}
		if network != "" && network != k.Network {
			return ""
		}
		network = k.Network
	}
	return network
}

type keyOwner struct {
	Owner
	ambiguous bool
}

// index returns the owners by the keys that plugins derive from them, and the
// networks by container ID.
func (c catalog) index(known []Owner) (byKey map[string]keyOwner, networks map[string][]string) {
	byKey, networks = map[string]keyOwner{}, map[string][]string{}
	keys := c.keys()
	for _, o := range known {
		if o.Network == "" || o.ContainerID == "" {
			continue
		}
		for _, key := range keys {
			other, taken := byKey[key(o)]
			byKey[key(o)] = keyOwner{o, other.ambiguous || taken && other.ContainerID != o.ContainerID}
		}
		if !slices.Contains(networks[o.ContainerID], o.Network) {
			networks[o.ContainerID] = append(networks[o.ContainerID], o.Network)
		}
	}
	return byKey, networks
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
