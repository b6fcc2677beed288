// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package nomad

import (
	"strings"
	"testing"

	"github.com/hashicorp/nomad/api"

	"github.com/allocnet/allocnet/internal/errdefs"
	"github.com/allocnet/allocnet/selection"
)

// TestNarrowingMeta: a group narrows its traffic by meta, also by that of its job. Nothing that is written is ignored.
func TestNarrowingMeta(t *testing.T) {
	for _, test := range []struct {
		job, group, task map[string]string
		want             selection.Narrowing
		word             string
	}{
		{nil, map[string]string{"owner": "x"}, nil, selection.Narrowing{}, ""},
		{map[string]string{ingressKey: "80/tcp"}, map[string]string{egressKey: "10.0.0.0/8 5432/tcp, dns"}, nil, selection.Narrowing{Ingress: "80/tcp", Egress: "10.0.0.0/8 5432/tcp, dns"}, ""},
		{map[string]string{ingressKey: "80/tcp"}, map[string]string{ingressKey: "none"}, nil, selection.Narrowing{Ingress: "none"}, ""},
		{nil, map[string]string{ingressKey: "80"}, nil, selection.Narrowing{}, `meta allocnet.ingress: "80": want a prefix`},
		{nil, map[string]string{ingressKey: "dns"}, nil, selection.Narrowing{}, `meta allocnet.ingress: "dns": want a prefix`},
		{nil, map[string]string{egressKey: ""}, nil, selection.Narrowing{}, `meta allocnet.egress: "": want parts`},
		{nil, map[string]string{egressKey: "${NOMAD_PORT_http}/tcp"}, nil, selection.Narrowing{}, "meta allocnet.egress: \"${NOMAD_PORT_http}/tcp\" has a variable"},
		{nil, map[string]string{"allocnet.Ingress": "80/tcp"}, nil, selection.Narrowing{}, "meta allocnet.Ingress: is unknown: want allocnet.networks, allocnet.ingress or allocnet.egress"},
		{nil, nil, map[string]string{ingressKey: "80/tcp"}, selection.Narrowing{}, "meta allocnet.ingress of task t"},
	} {
		a := allocation(nil, test.group)
		a.Job.Meta, a.Job.TaskGroups[0].Tasks = test.job, []*api.Task{{Name: "t", Meta: test.task}}
		j, err := jobOf(a)
		switch {
		case test.word == "" && (err != nil || j.Narrowing != test.want):
			t.Errorf("job %v, group %v: %+v, %v, want %+v", test.job, test.group, j.Narrowing, err, test.want)
		case test.word != "" && (errdefs.Of(err) != errdefs.Refused || !strings.Contains(err.Error(), test.word)):
			t.Errorf("job %v, group %v, task %v: %v, want %s", test.job, test.group, test.task, err, test.word)
		}
		selects := allocationStub{ID: a.ID, TaskGroup: a.TaskGroup, Job: a.Job}.selects()
		if selects != (test.want != selection.Narrowing{}) {
			t.Errorf("job %v, group %v: an agent that does not read it warns: %t", test.job, test.group, selects)
		}
	}
}
