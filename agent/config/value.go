// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package config

import (
	"fmt"
	"net"
	"net/netip"
	"os/user"
	"strconv"

	"github.com/hashicorp/hcl/v2"

	"github.com/allocnet/allocnet/internal/hclfile"
)

// values reads what is on the host, too.
type values struct{ hclfile.Values }

// hostPort reads a TCP address, which the block has to have. An empty host is all
// addresses.
func (v *values) hostPort(e hcl.Expression, block hcl.Range) string {
	text, ok := hclfile.Read[string](&v.Values, e)
	where := e.Range()
	if !ok {
		where = block
	}
	_, port, err := net.SplitHostPort(text)
	if _, invalid := strconv.ParseUint(port, 10, 16); err != nil || invalid != nil {
		v.Fault(where, "listen "+strconv.Quote(text), `want an address with a port, as in "127.0.0.1:9464"`)
	}
	return text
}

// nodeAddress reads an address that other hosts can send to.
func (v *values) nodeAddress(e hcl.Expression) netip.Addr {
	text, ok := hclfile.Read[string](&v.Values, e)
	if !ok {
		return netip.Addr{}
	}
	a, err := netip.ParseAddr(text)
	if err != nil || a.Zone() != "" || !a.IsGlobalUnicast() || a.Is4In6() {
		v.Fault(e.Range(), strconv.Quote(text), `want the address of this host that other hosts reach, as in "10.0.0.5"`)
	}
	return a
}

func (v *values) prefixes(e hcl.Expression) []netip.Prefix {
	texts, _ := hclfile.Read[[]string](&v.Values, e)
	var all []netip.Prefix
	for _, text := range texts {
		p, err := netip.ParsePrefix(text)
		switch {
		case err != nil:
			v.Fault(e.Range(), strconv.Quote(text), `want a prefix, as in "10.0.0.0/24"`)
		case p != p.Masked():
			v.Fault(e.Range(), strconv.Quote(text), fmt.Sprintf("want %q", p.Masked()))
		}
		all = append(all, p)
	}
	return all
}

func (v *values) user(e hcl.Expression) uint32 {
	return v.id(e, "user", func(name string) string {
		u, err := user.Lookup(name)
		if err != nil {
			return name
		}
		return u.Uid
	})
}

func (v *values) group(e hcl.Expression) uint32 {
	return v.id(e, "group", func(name string) string {
		g, err := user.LookupGroup(name)
		if err != nil {
			return name
		}
		return g.Gid
	})
}

// id reads what lookup makes a number of.
func (v *values) id(e hcl.Expression, kind string, lookup func(name string) string) uint32 {
	name, ok := hclfile.Read[string](&v.Values, e)
	if !ok {
		return 0
	}
	n, err := strconv.ParseUint(lookup(name), 10, 32)
	if err != nil {
		v.Fault(e.Range(), strconv.Quote(name), fmt.Sprintf("want the name or number of a %s of this host", kind))
	}
	return uint32(n)
}
