// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package cniplugin

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/containernetworking/cni/pkg/types"

	"github.com/allocnet/allocnet/selection"
)

type selectionSource struct {
	place, key string
	value      json.RawMessage
	elements   []selection.Element
}

// single reports whether the key is networks.NAME, for one network.
func (s selectionSource) single() bool { return strings.HasPrefix(s.key, argNetwork) }

func (s selectionSource) refuse(reason string) error {
	return refuse(types.ErrInvalidNetworkConfig, s.place+": "+reason)
}

func (s *selectionSource) parse() (err error) {
	if !s.single() {
		s.elements, err = parseNetworks(s.value)
		return err
	}
	text := string(s.value)
	if strings.HasPrefix(text, `"`) {
		if err := json.Unmarshal(s.value, &text); err != nil {
			return err
		}
	}
	e, err := selection.ParseElement(strings.TrimPrefix(s.key, argNetwork), text)
	s.elements = []selection.Element{e}
	return err
}

// selectionSources returns the places that select networks: CNI_ARGS, the
// capability arguments, and args.cni, each in the order of the keys.
func selectionSources(args map[string]string, c *conf) ([]selectionSource, error) {
	sources, err := argSources(args, c)
	if err != nil {
		return nil, err
	}
	if c.RuntimeConfig.Networks != nil {
		sources = append(sources, selectionSource{place: "the capability arguments", key: argNetworks, value: c.RuntimeConfig.Networks})
	}
	for _, key := range slices.Sorted(maps.Keys(c.Args.CNI)) {
		switch {
		case selectsNetworks(key):
			sources = append(sources, selectionSource{place: "args.cni", key: key, value: c.Args.CNI[key]})
		case key != argIdentity && !narrows(key):
			return nil, invalid(fmt.Errorf("args.cni: %q: unknown key: want networks, networks.NAME, ingress or egress", key))
		}
	}
	return sources, nil
}

// argSources returns the sources of CNI_ARGS. A key that is neither a selection,
// nor forwarded, nor ignorable is an error.
func argSources(args map[string]string, c *conf) ([]selectionSource, error) {
	var sources []selectionSource
	for _, key := range slices.Sorted(maps.Keys(args)) {
		switch {
		case selectsNetworks(key):
			text, err := json.Marshal(args[key])
			if err != nil {
				return nil, err
			}
			sources = append(sources, selectionSource{place: "CNI_ARGS", key: key, value: text})
		case !ignorable(key) && !narrows(key) && !slices.Contains(c.PassArgs, key):
			return nil, badArg(key, "is unknown: want networks, networks.NAME, ingress or egress")
		}
	}
	return sources, nil
}

func selectsNetworks(key string) bool {
	return key == argNetworks || strings.HasPrefix(key, argNetwork)
}

// selections merges sources. A network that two of them select is an error.
type selections struct {
	elements []selection.Element
	list     *selectionSource // the source with the key "networks"
	seen     map[string]selectionSource
}

func (all *selections) add(s selectionSource) error {
	if !s.single() {
		if all.list != nil {
			return s.refuse(fmt.Sprintf("%q is set in %s, too: set it in one place", argNetworks, all.list.place))
		}
		all.list = &s
	}
	for _, e := range s.elements {
		other, twice := all.seen[e.Name]
		if twice && (s.single() || other.single()) {
			return s.refuse(fmt.Sprintf("%q selects the network %q, and so does %q in %s: select it in one place", s.key, e.Name, other.key, other.place))
		}
		all.seen[e.Name] = s
	}
	all.elements = append(all.elements, s.elements...)
	return nil
}

// selected returns the networks that the job selects: those of "networks" first,
// then each of "networks.NAME", by name.
func selected(args map[string]string, c *conf) ([]selection.Element, error) {
	sources, err := selectionSources(args, c)
	if err != nil {
		return nil, err
	}
	all := selections{seen: map[string]selectionSource{}}
	for _, s := range sources {
		if err := s.parse(); err != nil {
			return nil, s.refuse(err.Error())
		}
		if err := all.add(s); err != nil {
			return nil, err
		}
	}
	return all.elements, nil
}
