// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Package span runs jobs on networks that span the hosts of a real Nomad cluster, of which the
// third client is behind a router, while parts of it fail.
package span

import (
	"os"
	"testing"

	"github.com/allocnet/allocnet/internal/sandbox/cluster"
)

// drivers lets the clients have the driver of docs/nomad-driver.md.
const drivers = `
plugin_dir = "` + cluster.DriverDir + `"
client {
  options = {
    "driver.allowlist" = "raw_exec,allocnet"
  }
}
plugin "allocnet" {
  args = ["plugin"]
}
`

// patient lets no node count as down, however long its Nomad takes to start on a machine with other load:
// Nomad would replace its allocations on other nodes, and those to which packets are sent would end.
const patient = `
server {
  heartbeat_grace        = "1h"
  failover_heartbeat_ttl = "1h"
}
`

// lab is the cluster of all tests of this process: it takes a while to start.
var lab *cluster.Cluster

func TestMain(m *testing.M) {
	layout := cluster.Layout{Router: true, Networks: configurations(), Client: drivers, Server: patient}
	os.Exit(cluster.Run(layout, func(c *cluster.Cluster) error {
		lab = c
		return install()
	}, m.Run))
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
