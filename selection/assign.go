// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package selection

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
)

// Assign assigns an interface name to each element and returns them in order: the
// primary (nil: none), the job's, the host's.
//
// The n-th element of the job is net<n> unless it names its interface, so that naming
// one renumbers no other. Where an explicit name is that one already, the first free
// number after the job's last is used. The host's elements are numbered after those of
// the job, so that adding one renumbers nothing. Errors are *Error.
func Assign(primary *Element, job, host []Element) ([]Element, error) {
	var all []Element
	if primary != nil {
		first := *primary
		first.Interface = cmp.Or(first.Interface, "eth0")
		if err := validate(first, "primary"); err != nil {
			return nil, err
		}
		all = append(all, first)
	}
	extra := slices.Concat(job, host)
	all = append(all, extra...)
	if len(all) > maxNetworks {
		return nil, &Error{"networks", "", fmt.Sprintf("the allocation would have %d networks, want at most %d", len(all), maxNetworks)}
	}
	if err := checkExtra(all[:len(all)-len(extra)], job, host); err != nil {
		return nil, err
	}
	number(all, len(all)-len(extra), len(job), nil)
	return all, nil
}

// AssignFurther assigns the first free names of net1, net2, ... to further elements of
// an allocation that has existing attachments. The taken names are not free. An
// element that names its interface keeps that name, taken or not. Errors are *Error.
func AssignFurther(taken []string, existing int, elements []Element) ([]Element, error) {
	if existing+len(elements) > maxNetworks {
		return nil, &Error{"networks", "", fmt.Sprintf("the allocation would have %d networks, want at most %d", existing+len(elements), maxNetworks)}
	}
	if err := checkExtra(nil, elements, nil); err != nil {
		return nil, err
	}
	all := slices.Clone(elements)
	number(all, 0, 0, taken)
	return all, nil
}

// checkExtra validates the elements, and refuses duplicate interface names and addresses.
func checkExtra(primary, job, host []Element) error {
	taken, requested := map[string]string{}, requests{}
	for _, e := range primary {
		taken[e.Interface] = "the primary"
		if err := requested.add("primary", e); err != nil {
			return err
		}
	}
	for _, part := range []struct {
		name     string
		elements []Element
	}{{"networks", job}, {"defaults", host}} {
		for i, e := range part.elements {
			position := fmt.Sprintf("%s[%d]", part.name, i)
			if err := validate(e, position); err != nil {
				return err
			}
			if err := requested.add(position, e); err != nil {
				return err
			}
			if e.Interface == "" {
				continue
			}
			if other, ok := taken[e.Interface]; ok {
				return &Error{position + ".interface", e.Interface, "already assigned to " + other}
			}
			taken[e.Interface] = position
		}
	}
	return nil
}

// requests are the positions of requested addresses by network: different networks may
// have the same addresses.
type requests map[networkAddress]string

type networkAddress struct {
	network string
	address netip.Addr
}

// add refuses an address that another element requests on the same network.
func (r requests) add(position string, e Element) error {
	for i, text := range e.IPs {
		address, err := parseIP(text)
		if err != nil {
			return err
		}
		at, key := fmt.Sprintf("%s.ips[%d]", position, i), networkAddress{e.Name, address.Unmap()}
		if other, ok := r[key]; ok {
			return &Error{at, text, fmt.Sprintf("%s requests this address of network %q already", other, e.Name)}
		}
		r[key] = at
	}
	return nil
}

// number assigns names to the interfaces of all[from:], of which the first jobs are
// the job's. The taken names are not free.
func number(all []Element, from, jobs int, taken []string) {
	free := func(name string) bool {
		return !slices.Contains(taken, name) && !slices.ContainsFunc(all, func(e Element) bool { return e.Interface == name })
	}
	next := jobs + 1
	nextFree := func() string {
		for !free(fmt.Sprintf("net%d", next)) {
			next++
		}
		return fmt.Sprintf("net%d", next)
	}
	for i := range all[from:] {
		e := &all[from+i]
		if e.Interface != "" {
			continue
		}
		if name := fmt.Sprintf("net%d", i+1); i < jobs && free(name) {
			e.Interface = name
		} else {
			e.Interface = nextFree()
		}
	}
}
