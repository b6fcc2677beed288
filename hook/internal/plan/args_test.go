// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package plan

import (
	"errors"
	"fmt"
	"testing"

	"github.com/allocnet/allocnet/policy"
	"github.com/allocnet/allocnet/selection"
)

func TestArgs(t *testing.T) {
	r := Request{ID: "a", Primary: &selection.Element{Name: "web"}, Args: map[string]string{"B": "2", "A": "1", "IgnoreUnknown": "false"}}
	if got := fmt.Sprint(r.cniArgs()); got != "[[IgnoreUnknown true] [A 1] [B 2]]" {
		t.Errorf("got %s", got)
	}
	for key, value := range map[string]string{"A": "1;B=2", "A=B": "1", "": "1", "C": "x=y", "D": "a\nb", "E;": ""} {
		r.Args = map[string]string{key: value}
		var refused *RequestError
		if err := r.Validate(); !errors.As(err, &refused) {
			t.Errorf("%q=%q: %v, want *RequestError", key, value, err)
		}
	}
}

// TestIdentityArgs: what the orchestrator says of an allocation replaces what others say.
func TestIdentityArgs(t *testing.T) {
	ofNomad := policy.Identity{Namespace: "prod", Job: "db", Group: "main", Region: "eu"}
	const nomad = "[NOMAD_ALLOC_ID a1] [NOMAD_GROUP_NAME main] [NOMAD_JOB_ID db] [NOMAD_NAMESPACE prod]"
	for name, test := range map[string]struct {
		edit func(*policy.Identity)
		args map[string]string
		want string
	}{
		"an identity":      {want: nomad + " [NOMAD_REGION eu]"},
		"forged":           {args: map[string]string{"NOMAD_JOB_ID": "other", "NOMAD_NAMESPACE": "other", "NOMAD_ALLOC_ID": "a2", "NOMAD_ALLOC_INDEX": "2"}, want: "[NOMAD_ALLOC_ID a1] [NOMAD_ALLOC_INDEX 2] [NOMAD_GROUP_NAME main] [NOMAD_JOB_ID db] [NOMAD_NAMESPACE prod] [NOMAD_REGION eu]"},
		"without a region": {edit: func(i *policy.Identity) { i.Region = "" }, args: map[string]string{"NOMAD_REGION": "other"}, want: nomad},
		"without a group":  {edit: func(i *policy.Identity) { i.Group = "" }, args: map[string]string{"A": "1"}, want: "[A 1]"},
		"a job as x;A=1":   {edit: func(i *policy.Identity) { i.Job = "x;NOMAD_JOB_ID=other" }, args: map[string]string{"NOMAD_JOB_ID": "other", "A": "1"}, want: "[A 1]"},
	} {
		r := Request{ID: "a1", Identity: ofNomad, Args: test.args}
		if test.edit != nil {
			test.edit(&r.Identity)
		}
		if got, want := fmt.Sprint(r.cniArgs()), "[[IgnoreUnknown true] "+test.want+"]"; got != want {
			t.Errorf("%s: got %s, want %s", name, got, want)
		}
	}
}
