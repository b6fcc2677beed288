// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package plan

import (
	"maps"
	"slices"
	"strings"
)

// separators are what a value of CNI_ARGS cannot have: the form KEY=VALUE;KEY=VALUE has no
// escape, and a separator inside a value would make further arguments.
const separators = "=;\x00\n"

func validateArgs(args map[string]string) error {
	for _, key := range slices.Sorted(maps.Keys(args)) {
		field := "CNI argument " + key
		if key == "" || strings.ContainsAny(key, separators) {
			return &RequestError{"CNI argument", key, "want a name without '=', ';', NUL or line break"}
		}
		if strings.ContainsAny(args[key], separators) {
			return &RequestError{field, args[key], "want a value without '=', ';', NUL or line break"}
		}
	}
	return nil
}

// cniArgs returns CNI_ARGS in a fixed order. IgnoreUnknown comes first because
// plugins refuse arguments that they do not know without it.
func (r Request) cniArgs() [][2]string {
	all := maps.Clone(r.Args)
	delete(all, "IgnoreUnknown")
	if own := r.identityArgs(); own != nil {
		all = replaceArgs(all, own)
	}
	args := [][2]string{{"IgnoreUnknown", "true"}}
	for _, key := range slices.Sorted(maps.Keys(all)) {
		args = append(args, [2]string{key, all[key]})
	}
	return args
}

// identityArgs returns the arguments by which Nomad tells plugins whose an allocation is; nil
// if it is not known as a whole.
func (r Request) identityArgs() map[string]string {
	i := r.Identity
	if i.Namespace == "" || i.Job == "" || i.Group == "" {
		return nil
	}
	return map[string]string{
		"NOMAD_ALLOC_ID": r.ID, "NOMAD_NAMESPACE": i.Namespace, "NOMAD_JOB_ID": i.Job, "NOMAD_GROUP_NAME": i.Group, "NOMAD_REGION": i.Region,
	}
}

// replaceArgs returns args with those of an identity in place of what they say of it. Of an
// identity that they cannot carry, as that of a job "a=b", they say nothing.
func replaceArgs(args, identity map[string]string) map[string]string {
	merged := map[string]string{}
	maps.Copy(merged, args)
	for key := range identity {
		delete(merged, key)
	}
	if validateArgs(identity) == nil {
		maps.Copy(merged, identity)
	}
	maps.DeleteFunc(merged, func(key, value string) bool { return key == "NOMAD_REGION" && value == "" })
	return merged
}
