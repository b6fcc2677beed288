// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package kernelevents

import (
	"bytes"

	"github.com/vishvananda/netlink/nl"
)

// Attributes are those of a message, by type.
type Attributes map[uint16][]byte

// AttributesOf reads attributes; none if they are damaged.
func AttributesOf(data []byte) Attributes {
	list, err := nl.ParseRouteAttr(data)
	if err != nil {
		return nil
	}
	a := Attributes{}
	for _, one := range list {
		a[one.Attr.Type&nl.NLA_TYPE_MASK] = one.Value
	}
	return a
}

// Text returns an attribute that is text; empty if there is none.
func (a Attributes) Text(kind uint16) string {
	text, _, _ := bytes.Cut(a[kind], []byte{0})
	return string(text)
}
