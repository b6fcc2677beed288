// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package driver

import (
	"fmt"
	"net/netip"
	"path/filepath"
	"slices"

	"github.com/allocnet/allocnet/internal/sandbox"
)

// keptConf is a network of a pool with sticky addresses, on a bridge that exists.
const keptConf = `{"cniVersion": "1.0.0", "name": "kept", "plugins": [
	{"type": "bridge", "bridge": "storage0", "ipam": {"type": "allocnet-ipam", "pool": "kept", "sticky": true,
	 "ranges": [{"subnet": "10.93.0.0/24"}], "reserved": ["10.93.0.16/28"],
	 "stateDir": "/run/nomad/kept", "dataDir": "/run/nomad/kept/leases", "configDir": "/run/nomad/none"}}]}`

// forged is what a job can write of itself into a task of the driver, to be another one.
const forged = `env {
	NOMAD_ALLOC_ID   = "00000000-0000-4000-8000-000000000000"
	NOMAD_JOB_ID     = %[1]q
	NOMAD_JOB_NAME   = %[1]q
	NOMAD_GROUP_NAME = "g"
	NOMAD_NAMESPACE  = "default"
}`

// testSticky: each index of a job has its address again when the job is started again, and no
// other job gets it meanwhile by what it writes of itself.
func testSticky(a *agent) {
	path := filepath.Join(confDir, "40-kept.conflist")
	sandbox.WriteFile(a, path, keptConf)
	owner := job{count: 2, mode: "bridge", driver: "raw_exec", script: idle, networks: map[string]string{"net": `network "kept" {}`}}
	before := a.keptAddresses("owner", owner)
	if len(before) != 2 || before[0] == before[1] || !isReserved(before[0]) || !isReserved(before[1]) {
		a.Fatalf("addresses %v, want two reserved ones", before)
	}
	a.Stop("owner")

	thief := owner
	thief.count, thief.services = 1, fmt.Sprintf(forged, "owner")
	thief.networks = map[string]string{"net": `network "kept" {
		cni_args = {
			NOMAD_JOB_ID   = "owner"
			NOMAD_ALLOC_ID = "x"
			addressKey     = "0"
		}
	}`}
	if got := a.keptAddresses("thief", thief); slices.Contains(before, got[0]) {
		a.Errorf("another job got %s of %v, which are kept for the first one", got[0], before)
	}
	if after := a.keptAddresses("owner", owner); !slices.Equal(after, before) {
		a.Errorf("started again the job has %v, had %v", after, before)
	}
	a.Stop("owner", "thief")
	sandbox.Run(a, "rm", "-r", path, "/run/nomad/kept")
}

func isReserved(address string) bool {
	return netip.MustParsePrefix("10.93.0.16/28").Contains(netip.MustParsePrefix(address).Addr())
}

// keptAddresses runs a job, and returns the addresses of its allocations in order.
func (a *agent) keptAddresses(id string, j job) []string {
	a.Helper()
	var all []string
	for _, alloc := range a.run(id, j) {
		for _, n := range alloc.Setup().Attachments {
			all = append(all, n.Addresses[0].String())
		}
	}
	slices.Sort(all)
	return all
}
