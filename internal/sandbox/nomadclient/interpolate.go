// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package nomadclient

import (
	"cmp"
	"regexp"
	"strconv"
)

var variable = regexp.MustCompile(`\$\{([^}]+)\}`)

// interpolate replaces the variables in the value of a CNI argument. An unknown one stays as it is
// written, without an error.
func (a *Allocation) interpolate(text string) string {
	known := a.variables()
	return variable.ReplaceAllStringFunc(text, func(match string) string {
		value, found := known[match[2:len(match)-1]]
		if !found {
			return match
		}
		return value
	})
}

// variables are those that a network block can have: not the ports of its own group.
func (a *Allocation) variables() map[string]string {
	g := a.Group
	known := map[string]string{
		"NOMAD_ALLOC_ID": a.ID, "NOMAD_SHORT_ALLOC_ID": a.ID[:8], "NOMAD_ALLOC_INDEX": strconv.Itoa(a.Index),
		"NOMAD_JOB_ID": g.Job, "NOMAD_JOB_NAME": g.Job, "NOMAD_GROUP_NAME": g.Name,
		"NOMAD_REGION": cmp.Or(g.Region, "global"), "NOMAD_NAMESPACE": cmp.Or(g.Namespace, "default"),
		"NOMAD_DC": "dc1", "node.datacenter": "dc1",
	}
	for key, value := range g.Meta {
		known["NOMAD_META_"+key] = value
	}
	return known
}
