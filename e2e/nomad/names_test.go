// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package nomad

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/allocnet/allocnet/internal/sandbox/nomadagent"
)

// hostsFile is the path of the file that names the others of an allocation's networks.
func hostsFile(alloc nomadagent.Allocation) string {
	return filepath.Join(dataDir, "alloc", alloc.ID, "alloc/network.hosts")
}

// awaitNames waits until the file of an allocation has lines, and none of the others.
func awaitNames(a *agent, alloc nomadagent.Allocation, want, not []string) {
	a.Helper()
	has := func(text, line string) bool { return strings.Contains("\n"+text, "\n"+line+"\n") }
	a.Await(alloc.JobID+" has the names "+strings.Join(want, ", ")+", and not "+strings.Join(not, ", "), func() bool {
		data, _ := os.ReadFile(hostsFile(alloc)) // or there is none yet
		for _, line := range want {
			if !has(string(data), line) {
				return false
			}
		}
		for _, line := range not {
			if has(string(data), line) {
				return false
			}
		}
		return true
	})
}

// testNames: allocations find each other on their networks by name, and the job of the documentation has a task that resolves these names.
func testNames(a *agent) {
	if a.daemon == nil {
		return // the agent names them
	}
	databases := a.run("db", group{count: 2, selects: `"storage,backup"`})
	shop := strings.NewReplacer(`"/usr/bin/curl"`, `"/bin/web"`, `["http`, `["get", "http`).Replace(documentedIn(a.T, "names.md", "tested: names"))
	a.Submit("shop", shop)
	var client nomadagent.Allocation
	a.Await("the shop has read from db-0.storage", func() bool {
		all := a.Allocations("shop")
		if len(all) == 0 {
			return false
		}
		client = all[0]
		out := client.File("alloc/logs/shop.stdout.0")
		return strings.HasPrefix(out, "db 0, to ")
	})
	own := address(a, client.Setup(), "net1") + " shop-0.storage"
	var storage, backup []string
	for _, alloc := range databases {
		name := alloc.Name[strings.LastIndexByte(alloc.Name, '[')+1 : len(alloc.Name)-1]
		storage = append(storage, address(a, alloc.Setup(), "net1")+" db-"+name+".storage")
		backup = append(backup, address(a, alloc.Setup(), "net2")+" db-"+name+".backup")
	}
	awaitNames(a, client, append(storage, own), backup)
	awaitNames(a, databases[0], append(append(backup, storage...), own), nil)
	a.Nomad("job", "stop", "-purge", "-detach", "shop")
	awaitNames(a, databases[0], append(backup, storage...), []string{own})
	a.Await("the file of the shop is gone", func() bool { _, err := os.Stat(hostsFile(client)); return os.IsNotExist(err) })
	a.Stop("db")
}
