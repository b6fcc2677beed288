// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package nomad

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/allocnet/allocnet/internal/sandbox"
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

// testServices: an allocation finds Nomad's services by CoreDNS, as the documentation has it, at their addresses on its networks.
func testServices(a *agent) {
	if a.daemon == nil {
		return // the jobs select networks by meta
	}
	program := filepath.Join(sandbox.Root(), "build/coredns/coredns")
	if _, err := os.Stat(program); err != nil {
		a.Fatalf("%v: run: make coredns", err)
	}
	a.Submit("db", strings.NewReplacer("/usr/bin/python3", "/bin/web", `"-m", "http.server", "80"`, `"serve", "db ${NOMAD_ALLOC_INDEX}"`).Replace(documentedIn(a.T, "names.md", "tested: service")))
	shop := strings.NewReplacer(`"coredns"`, strconv.Quote(program), "/usr/bin/curl", "/bin/web", `["http`, `["get", "http`).Replace(documentedIn(a.T, "names.md", "tested: coredns"))
	a.Submit("shop", shop)
	a.Await("the shop has read from the service", func() bool {
		return slices.ContainsFunc(a.Allocations("shop"), func(alloc nomadagent.Allocation) bool {
			return strings.HasPrefix(alloc.File("alloc/logs/shop.stdout.0"), "db ")
		})
	})
	a.Submit("idle", strings.NewReplacer(`job "shop"`, `job "idle"`, `["get", "http://db.default.service.nomad/"]`, `["serve", "idle"]`).Replace(shop))
	client := a.AwaitRunning("idle", 1)[0]
	var addresses []string
	for _, alloc := range a.AwaitRunning("db", 2) {
		addresses = append(addresses, address(a, alloc.Setup(), "net1"))
	}
	awaitService(a, client, addresses)
	a.Nomad("job", "stop", "-purge", "-detach", "db")
	awaitService(a, client, nil)
	a.Stop("shop", "idle")
}

// awaitService waits until an allocation resolves the service to addresses, and to no others.
func awaitService(a *agent, client nomadagent.Allocation, want []string) {
	a.Helper()
	slices.Sort(want)
	a.Await("the service is "+strings.Join(want, ", "), func() bool {
		out, _ := exec.Command("ip", "netns", "exec", client.ID, "busybox", "nslookup", "-type=a", "db.default.service.nomad", "127.0.0.1").Output() // or it has none yet
		var got []string
		for _, match := range regexp.MustCompile(`(?m)^Name:.*\nAddress: (\S+)$`).FindAllSubmatch(out, -1) {
			got = append(got, string(match[1]))
		}
		slices.Sort(got)
		return slices.Equal(got, want)
	})
}
