// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package repair

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/allocnet/allocnet/hook"
	"github.com/allocnet/allocnet/internal/sandbox"
)

// manyRoutes is how many a task makes.
var manyRoutes = int(sandbox.Number("ALLOCNET_REPAIR_ROUTES", 25_000))

// TestLongManyRoutes: those that a task makes in a table of its own are not read. Among very many in the
// main table nothing is looked for, which is reported.
func TestLongManyRoutes(t *testing.T) {
	h := newHost(t, hook.ExecutorAuto, "iptables")
	h.attach("one", 8080)
	t.Cleanup(func() { h.detach("one") })
	round := func() string {
		began := time.Now()
		found := missing(h.repair(hook.RepairRules))
		t.Logf("a round in %s", time.Since(began).Round(time.Millisecond))
		return found
	}
	round()
	h.makeRoutes("table 77")
	if found := round(); found != "" {
		t.Errorf("with routes in another table: %s", found)
	}
	h.makeRoutes("table main")
	if found := round(); !strings.Contains(found, "table 254 has more than 20000 routes") {
		t.Errorf("with as many in the main table: %s", found)
	}
}

// makeRoutes makes many routes through an interface of an allocation.
func (h *host) makeRoutes(where string) {
	h.Helper()
	var b strings.Builder
	for i := range manyRoutes {
		fmt.Fprintf(&b, "route add 11.%d.%d.%d/32 dev eth0 %s\n", i>>16, i>>8&255, i&255, where)
	}
	batch := filepath.Join(h.dir, "routes")
	sandbox.WriteFile(h, batch, b.String())
	h.run("ip -n one -batch " + batch)
}
