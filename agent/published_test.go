// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package agent

import (
	"errors"
	"net/netip"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

// TestPublishedMetric: an address has a series while the host has it.
func TestPublishedMetric(t *testing.T) {
	var held map[netip.Addr]string
	var failure error
	registry := prometheus.NewRegistry()
	registry.MustRegister(publishedCollector{func() (map[netip.Addr]string, error) { return held, failure }, hclog.NewNullLogger()})
	require := func(want string) {
		t.Helper()
		if want != "" {
			want = "# HELP allocnet_published_address 1 for each address that this host has for the ports of an allocation (publishAddress).\n# TYPE allocnet_published_address gauge\n" + want + "\n"
		}
		if err := testutil.GatherAndCompare(registry, strings.NewReader(want)); err != nil {
			t.Error(err)
		}
	}
	require("")
	held = map[netip.Addr]string{netip.MustParseAddr("192.0.2.50"): "eth0"}
	require(`allocnet_published_address{address="192.0.2.50",interface="eth0"} 1`)
	held, failure = nil, errors.New("no memory")
	require("")
}
