// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package policy

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/allocnet/allocnet/cniconf"
	"github.com/allocnet/allocnet/internal/errdefs"
	"github.com/allocnet/allocnet/internal/files"
	"github.com/allocnet/allocnet/internal/strictjson"
)

// Source is rules with the file that has them.
type Source struct {
	Rules
	File string
}

// Load reads the rules of a host. Only a file that does not exist has none: one that is empty
// was truncated, and a link that leads nowhere had some.
func Load(file string) (Source, error) {
	data, err := files.Read(file)
	if errors.Is(err, fs.ErrNotExist) {
		if link := files.DanglingLink(file); link != "" {
			err = refuse(fmt.Errorf("policy in %s: the link %s leads nowhere: correct it, or remove it if there are no rules", file, link))
			return Source{File: file}, err
		}
		return Source{File: file}, nil
	}
	if err != nil {
		return Source{File: file}, errdefs.As(errdefs.Refused, fmt.Errorf("policy: %w", err))
	}
	s, err := parse(strictjson.Text{Path: file, Line: 1, Data: data})
	if err != nil {
		return s, err
	}
	if text := s.ofNetworks(); text != "" {
		return s, refuse(fmt.Errorf("policy in %s: %s: want it in the conflist of a network", file, text))
	}
	return s, nil
}

// ofNetworks returns a key that is for networks only, with its value; empty if there is none.
func (r Rules) ofNetworks() string {
	for _, key := range []struct {
		text string
		set  bool
	}{
		{"hostRange true", r.HostRange}, {"acceptRA true", r.AcceptRA}, {"antispoof", r.Antispoof != nil}, {"fromHost", r.FromHost != nil}, {"narrow true", r.Narrow}, {"egressAddress", r.EgressAddress != nil}, {"publishAddress", r.PublishAddress != nil},
	} {
		if key.set {
			return key.text
		}
	}
	for _, o := range append(r.options(), option{key: "executor", value: r.Executor}, option{key: "isolation", value: string(r.Isolation)}) {
		if o.value != "" {
			return fmt.Sprintf("%s %q", o.key, o.value)
		}
	}
	return ""
}

func refuse(err error) error { return errdefs.As(errdefs.Refused, err) }

// Of reads the rules of a network, under the key "allocnet" of its conflist. Without the key
// there are none. A key that is unknown, there twice or in another place is an error: a
// misspelled rule would deny nothing. They are read once.
func Of(n *cniconf.Network) (Source, error) {
	of := cniconf.Derive(n, readKey{}, func() (r read) {
		r.Source, r.err = rulesOf(n)
		return r
	})
	return of.Source, of.err
}

// read are rules, or why they cannot be read.
type read struct {
	Source

	err error
}

type readKey struct{}

func rulesOf(n *cniconf.Network) (Source, error) {
	if err := refuseMisplaced(n); err != nil {
		return Source{File: n.Path}, err
	}
	if n.Options.Data == nil {
		return Source{File: n.Path}, nil
	}
	s, err := parse(n.Options)
	if err == nil && s.IPv6 == IPv6Off {
		err = refuseIPv6(n, s)
	}
	if err == nil {
		err = refuseUseless(n, s)
	}
	return s, err
}

// refuseIPv6 refuses a network without IPv6 that asks for it.
func refuseIPv6(n *cniconf.Network, s Source) error {
	uses := n.IPv6()
	if s.AcceptRA {
		uses = "acceptRA true, which gives it IPv6 addresses"
	}
	if uses == "" {
		return nil
	}
	return refuse(fmt.Errorf("policy in %s: ipv6 %q: the network has %s: want %q, or remove that", s.File, s.IPv6, uses, IPv6LinkLocal))
}

// withMTU are the plugins that give an interface an MTU by their key "mtu".
var withMTU = []string{"bridge", "ptp", "macvlan", "ipvlan", "vlan"}

// refuseUseless refuses options that no plugin of the network would follow.
func refuseUseless(n *cniconf.Network, s Source) error {
	chain := n.Chain()
	if s.MTUFrom != "" && !slices.Contains(withMTU, chain[0].Type) {
		return refuse(fmt.Errorf("policy in %s: mtuFrom %q: the plugin %s has no key \"mtu\": want one of %s, or omit it", s.File, s.MTUFrom, chain[0].Type, strings.Join(withMTU, ", ")))
	}
	if s.MTUFrom != "" && chain[0].FixedMTU() != 0 {
		return refuse(fmt.Errorf("policy in %s: mtuFrom %q: the plugin %s has \"mtu\": %d: remove one of them", s.File, s.MTUFrom, chain[0].Type, chain[0].FixedMTU()))
	}
	if s.Publish != "" && !slices.Contains(n.Capabilities(), "portMappings") {
		return refuse(fmt.Errorf("policy in %s: publish %q: no plugin declares the capability \"portMappings\": add portmap, or omit it", s.File, s.Publish))
	}
	return nil
}

// restricting are the keys of rules, which have no effect outside of "allocnet".
var restricting = []string{"namespaces", "jobs", "maxAttachments", "staticIPs", "staticMAC", "hostPorts", "isolation", "antispoof", "fromHost", "enforce", "narrow", "egressAddress", "publishAddress"}

// refuseMisplaced refuses rules beside the key "allocnet", and in plugins.
func refuseMisplaced(n *cniconf.Network) error {
	for i, text := range n.Texts() {
		members, err := text.Members()
		if err != nil {
			return refuse(fmt.Errorf("%s: %w", text.Path, err))
		}
		for _, m := range members {
			want := ""
			switch {
			case i == 0 && m.Key == "allocnet":
			case strings.EqualFold(m.Key, "allocnet"), i == 0 && strictjson.Similar(m.Key, []string{"allocnet"}) != "":
				want = `want "allocnet" beside "plugins"`
			case slices.ContainsFunc(restricting, func(rule string) bool { return strings.EqualFold(rule, m.Key) }):
				want = `want it in the object "allocnet" beside "plugins"`
			}
			if want != "" {
				return refuse(fmt.Errorf("policy in %s:%d: the key %q has no effect there: %s", text.Path, m.Line, m.Key, want))
			}
		}
	}
	return nil
}

func parse(t strictjson.Text) (Source, error) {
	s := Source{File: t.Path}
	members, err := t.Members()
	mistakes, errForm := t.Check(strictjson.Form{Of: "the policy", Into: &s.Rules, Exact: true})
	if err := cmp.Or(err, errForm); err != nil {
		return s, refuse(fmt.Errorf("policy in %w", t.Located(err)))
	}
	if len(mistakes) > 0 {
		return s, refuse(mistakes[0])
	}
	for _, m := range members {
		if string(m.Value.Data) == "null" {
			return s, refuse(fmt.Errorf("policy in %s:%d: %s: null: want a value, or omit the key", t.Path, m.Line, m.Key))
		}
	}
	if err := json.Unmarshal(t.Data, &s.Rules); err != nil {
		return s, refuse(fmt.Errorf("policy in %w", t.Located(err)))
	}
	return s, refuse(s.validate())
}
