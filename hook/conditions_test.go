// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package hook

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/allocnet/allocnet/internal/errdefs"
	"github.com/allocnet/allocnet/selection"
)

// TestHostNameIsRefused: before anything is attached, whatever executes the network.
func TestHostNameIsRefused(t *testing.T) {
	for _, executor := range []string{ExecutorAuto, ExecutorPlugins} {
		for _, key := range []string{"conditionsV4", "conditionsV6"} {
			m := newMemory(t, func(c *Config) { c.Executor = executor })
			words, _ := json.Marshal([]string{"-s", "router.example.com"})
			m.network(t, "web", "bridge", fmt.Sprintf(`{"type": "portmap", %q: %s}`, key, words))
			_, err := m.Setup(t.Context(), Request{ID: "w1", Primary: &selection.Element{Name: "web", Interface: "eth0"}})
			if errdefs.Of(err) != errdefs.Refused || !strings.Contains(err.Error(), "web.conflist: "+key+` of portmap has the host name "router.example.com"`) {
				t.Errorf("%s, %s: %v", executor, key, err)
			}
			if calls := m.exec.names(); len(calls) > 0 {
				t.Errorf("%s: called %q", executor, calls)
			}
			catalog, failed := m.Catalog()
			if n, missing := catalog.Lookup("web"); errors.Join(failed, missing) != nil || m.env.Config.CheckKeys(n) == nil {
				t.Errorf("networks and doctor do not say it: %v", failed)
			}
		}
	}
}
