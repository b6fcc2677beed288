// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package hook

import (
	"errors"
	"strings"
	"testing"

	"github.com/allocnet/allocnet/internal/errdefs"
	"github.com/allocnet/allocnet/selection"
)

// TestTwoLimitsAreRefused: a network of which two plugins limit packets of one direction is refused before anything is attached, whatever
// executes it, also if the second limit is that of a job. The second plugin would fail at each ADD.
func TestTwoLimitsAreRefused(t *testing.T) {
	const limited = `{"type": "bandwidth", "ingressRate": 8000000, "ingressBurst": 800000}`
	const follows = `{"type": "bandwidth", "capabilities": {"bandwidth": true}}`
	for name, test := range map[string]struct {
		second  string
		asked   *selection.Bandwidth
		refused bool
	}{
		"of the network": {limited, nil, true},
		"of a job":       {follows, &selection.Bandwidth{IngressRate: 9000000}, false},
	} {
		for _, executor := range []string{ExecutorAuto, ExecutorPlugins} {
			m := newMemory(t, func(c *Config) { c.Executor = executor })
			m.network(t, "web", "bridge", limited, test.second)
			_, err := m.Setup(t.Context(), Request{ID: "w1", Primary: &selection.Element{Name: "web", Interface: "eth0", Bandwidth: test.asked}})
			if errdefs.Of(err) != errdefs.Refused || !strings.Contains(err.Error(), "web.conflist: 2 plugins bandwidth limit ingress") || len(m.exec.names()) > 0 {
				t.Errorf("%s, %s: %v, called %q", name, executor, err, m.exec.names())
			}
			catalog, failed := m.Catalog()
			if n, missing := catalog.Lookup("web"); errors.Join(failed, missing) != nil || (m.env.Config.CheckKeys(n) != nil) != test.refused {
				t.Errorf("%s: networks and doctor: %v, %v", name, failed, missing)
			}
		}
	}
	m := newMemory(t, nil)
	m.network(t, "web", "bridge", limited, follows)
	if _, err := m.Setup(t.Context(), Request{ID: "w1", Primary: &selection.Element{Name: "web", Interface: "eth0", Bandwidth: &selection.Bandwidth{EgressRate: 9000000}}}); err != nil {
		t.Errorf("limits of two directions: %v", err)
	}
}
