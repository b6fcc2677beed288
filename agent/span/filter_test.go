// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package span

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestFiltered: what drops packets is a problem soon after a pool is there, and within a minute of
// a change.
func TestFiltered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t, Settings{})
		h.dropped = []string{"iptables drops them"}
		h.keeps(true, config(t, "routed"))
		end := h.run(t)
		defer end()
		settle()
		requireText(t, "problems", h.kinds(), "filtered")
		requireText(t, "text", h.Status()[0].Problems[0].Text, "iptables drops them")
		h.set(func() { h.dropped = nil })
		time.Sleep(filterPause + time.Second)
		synctest.Wait()
		requireText(t, "problems without a rule", h.kinds(), "")
	})
}
