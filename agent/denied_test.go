// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package agent

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/hashicorp/go-hclog"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/allocnet/allocnet/agent/api"
	"github.com/allocnet/allocnet/allocation"
	"github.com/allocnet/allocnet/cniconf"
	"github.com/allocnet/allocnet/hook"
)

// denying has dropped packets.
type denying struct {
	denied *allocation.Denied
	err    error
}

func (e *denying) AddDenied(_ context.Context, all ...*hook.Allocation) error {
	for _, a := range all {
		for i := range a.Attachments {
			a.Attachments[i].Denied = e.denied
		}
	}
	return e.err
}

// TestDeniedFlows: the flows that are kept, and why there are none.
func TestDeniedFlows(t *testing.T) {
	flow := allocation.DeniedFlow{
		First: time.Unix(1, 0).UTC(), Last: time.Unix(2, 0).UTC(), Count: 3, Protocol: "tcp", Port: 5432, Reason: "strict",
		From: allocation.FlowEnd{Address: netip.MustParseAddr("10.0.0.5"), Allocation: "web-1", Interface: "eth0", Network: "web", Link: "br0"},
		To:   allocation.FlowEnd{Address: netip.MustParseAddr("fd00::5")},
	}
	for _, test := range []struct {
		flows []hook.DeniedFlow
		err   error
		want  api.DeniedFlows
	}{
		{nil, nil, api.DeniedFlows{Flows: []api.DeniedFlow{}}},
		{[]hook.DeniedFlow{flow, {Reason: "forged", Count: 1}}, errors.New("deaf"), api.DeniedFlows{Flows: []api.DeniedFlow{flow, {Reason: "forged", Count: 1}}, Deaf: "deaf"}},
	} {
		r := start(t, Config{Denied: func() ([]hook.DeniedFlow, error) { return test.flows, test.err }}, &scripted{})
		got, err := r.client.Denied(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(&test.want, got, cmpopts.EquateComparable(netip.Addr{})); diff != "" {
			t.Error(diff)
		}
		if status, _, body := r.exchange("GET", "/v1/denied", ""); status != 200 {
			t.Errorf("status %d: %s", status, body)
		}
	}
	if status, _, body := start(t, Config{}, &scripted{}).exchange("GET", "/v1/denied", ""); status != 501 {
		t.Errorf("an agent that knows none: status %d: %s", status, body)
	}
}

// TestDeniedOfAllocations: allocations have what was dropped of them, and go out without it if that is not known.
func TestDeniedOfAllocations(t *testing.T) {
	dropped := &denying{denied: &allocation.Denied{Packets: 3, Bytes: 4, Forged: 5}}
	r := start(t, Config{AddDenied: dropped.AddDenied}, &scripted{})
	all, err := r.client.Allocations(t.Context())
	if err != nil || len(all) != 1 || all[0].Attachments[0].Denied == nil || *all[0].Attachments[0].Denied != (allocation.Denied{Packets: 3, Bytes: 4, Forged: 5}) {
		t.Errorf("%+v, %v", all, err)
	}
	dropped = &denying{err: errors.New("not permitted")}
	r = start(t, Config{AddDenied: dropped.AddDenied}, &scripted{})
	if all, err := r.client.Allocations(t.Context()); err != nil || len(all) != 1 || all[0].Attachments[0].Denied != nil {
		t.Errorf("without counts: %+v, %v", all, err)
	}
}

// TestDeniedBefore: what was counted before the agent began is not counted again.
func TestDeniedBefore(t *testing.T) {
	var c deniedCounter
	of := func(n uint64) []*hook.Allocation {
		return []*hook.Allocation{{ID: "a", Attachments: []hook.Attachment{{Network: "web", Interface: "eth0", Denied: &allocation.Denied{Packets: n}}}}}
	}
	for _, step := range [][2]uint64{{7, 0}, {9, 2}, {9, 2}, {1, 3}} {
		c.count(of(step[0]))
		if c.total["web"].Packets != step[1] {
			t.Errorf("at %d: %+v, want %d", step[0], c.total, step[1])
		}
	}
}

// TestDeniedMetrics: the counters of a network never shrink, although those of its attachments end with them.
func TestDeniedMetrics(t *testing.T) {
	e := &denying{}
	c := &hostCollector{
		engine: &scripted{}, catalog: func() (*cniconf.Catalog, error) { return &cniconf.Catalog{}, nil }, log: hclog.NewNullLogger(),
		addDenied: Config{AddDenied: e.AddDenied, Logger: hclog.NewNullLogger()}.addDenied,
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(c)
	for _, step := range []struct {
		denied *allocation.Denied
		want   string // packets, bytes, forged
	}{
		{nil, ""},
		{&allocation.Denied{Packets: 3, Bytes: 30, Forged: 1}, "3 30 1"},
		{&allocation.Denied{Packets: 5, Bytes: 50, Forged: 1}, "5 50 1"},
		{&allocation.Denied{Packets: 1, Bytes: 10}, "6 60 1"}, // made anew
		{nil, "6 60 1"},
		{&allocation.Denied{Packets: 2, Bytes: 20, Forged: 2}, "8 80 3"}, // another attachment of the name
		{&allocation.Denied{Packets: 9, Bytes: 90, Forged: 9}, "fails 8 80 3"},
		{&allocation.Denied{Packets: 3, Bytes: 30, Forged: 2}, "9 90 3"},
	} {
		e.denied, e.err = step.denied, nil
		if text, fails := strings.CutPrefix(step.want, "fails "); fails {
			step.want, e.err = text, errors.New("not permitted")
		}
		want := ""
		if f := strings.Fields(step.want); len(f) == 3 {
			want = "# HELP allocnet_denied_bytes_total Bytes of these packets.\n# TYPE allocnet_denied_bytes_total counter\nallocnet_denied_bytes_total{network=\"web\"} " + f[1] +
				"\n# HELP allocnet_denied_packets_total Packets to and from attachments that isolation denied, by network.\n# TYPE allocnet_denied_packets_total counter\nallocnet_denied_packets_total{network=\"web\"} " + f[0] +
				"\n# HELP allocnet_forged_packets_total Packets that attachments sent as others, and that were dropped, by network.\n# TYPE allocnet_forged_packets_total counter\nallocnet_forged_packets_total{network=\"web\"} " + f[2] + "\n"
		}
		if err := testutil.GatherAndCompare(registry, strings.NewReader(want), "allocnet_denied_bytes_total", "allocnet_denied_packets_total", "allocnet_forged_packets_total"); err != nil {
			t.Errorf("%+v: %v", step.denied, err)
		}
	}
}
