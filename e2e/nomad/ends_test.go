// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package nomad

import (
	"encoding/json"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/allocnet/allocnet/hook"
	"github.com/allocnet/allocnet/internal/sandbox"
	"github.com/allocnet/allocnet/internal/sandbox/nomadagent"
	"github.com/allocnet/allocnet/nomad"
)

const extra = `"storage,mgmt"`

// documented returns the HCL of docs/nomad.md that follows a mark.
func documented(t *testing.T, mark string) string {
	t.Helper()
	return documentedIn(t, "nomad.md", mark)
}

// documentedIn is documented of another page.
func documentedIn(t *testing.T, page, mark string) string {
	t.Helper()
	block := regexp.MustCompile("(?s)<!-- " + mark + " -->\n *```(?:hcl|sh)\n(.*?)```").FindStringSubmatch(read(t, "../../docs/"+page))
	if block == nil {
		t.Fatalf("docs/%s has nothing with the mark %q", page, mark)
	}
	return block[1]
}

// documentedVLAN returns the network of docs/vlan.md, on the link of the tests.
func documentedVLAN(t *testing.T) string {
	t.Helper()
	_, text, _ := strings.Cut(documentedIn(t, "vlan.md", "tested: network"), "<<'END'\n")
	text, _, _ = strings.Cut(text, "   END\n")
	return strings.Replace(text, "eno1.100", "uplink", 1)
}

// jobPages are those whose jobs testExamples runs, under the names of the jobs.
var jobPages = map[string]string{"db": "nomad.md", "two": "two-networks.md", "vlan": "vlan.md"}

// testExamples plans and runs every example job, and those of the documents, in the form of the
// agent's jobs. Jobs for the driver are run by e2e/driver.
func testExamples(a *agent) {
	mark, jobs := "job", "../../dist/jobs/*.nomad.hcl"
	if a.arguments {
		mark, jobs = "arguments job", "../../dist/jobs/arguments/*.nomad.hcl"
	}
	files := glob(a.T, jobs)
	for name, page := range jobPages {
		file := dir + "/" + name + ".nomad.hcl"
		sandbox.WriteFile(a, file, documentedIn(a.T, page, "tested: "+mark))
		files = append(files, file)
	}
	for _, file := range files {
		if text := read(a, file); strings.Contains(text, `"allocnet"`) || strings.Contains(text, "connect {") {
			continue // testConnect, and e2e/driver
		}
		id := strings.TrimSuffix(filepath.Base(file), ".nomad.hcl")
		plan := exec.Command(nomadagent.Binary(), "job", "plan", file)
		out, err := plan.CombinedOutput()
		if code := plan.ProcessState.ExitCode(); code != 1 || !strings.Contains(string(out), "All tasks successfully allocated") { // 1: it would be placed
			a.Errorf("plan of %s: %v\n%s", file, err, out)
		}
		a.Nomad("job", "run", "-detach", file)
		var job struct{ TaskGroups []struct{ Count int } }
		if err := a.API("job/"+id, &job); err != nil {
			a.Fatal(err)
		}
		for _, alloc := range a.AwaitRunning(id, job.TaskGroups[0].Count) {
			if len(alloc.Setup().Attachments) < 2 {
				a.Errorf("%s has %s", id, nomadagent.Networks(alloc.Setup()))
			}
		}
		a.Stop(id)
	}
}

// argumentsBlock is the block of the CNI arguments of an example.
var argumentsBlock = regexp.MustCompile(`(?s)\n +cni \{.*?\n      \}`)

// testConnect: of the example of the service mesh this client lacks only Consul, if the
// proxy needs no Docker, or Nomad refuses the mode cni/NAME. Nomad refuses a second
// network block.
func testConnect(a *agent) {
	example := read(a, "../../dist/jobs/arguments/connect.nomad.hcl")
	if !a.arguments {
		example = argumentsBlock.ReplaceAllString(example, "")
	}
	onlyConsul := `Constraint "\$\{attr.consul.version\} semver`
	if !a.Has(nomadagent.ConnectOnCNI) {
		onlyConsul = `Consul Connect sidecar requires bridge network, found "cni/multi"`
	}
	for from, test := range map[string]struct{ to, says string }{
		"sidecar_service {}": {"sidecar_service {}\nsidecar_task {\ndriver = \"raw_exec\"\nconfig {\ncommand = \"true\"\n}\n}", onlyConsul},
		"service {":          {"network {\nmode = \"cni/storage\"\n}\nservice {", "exactly (one|1) network"},
	} {
		file := dir + "/connect.nomad.hcl"
		sandbox.WriteFile(a, file, strings.Replace(example, from, test.to, 1))
		out, err := exec.Command(nomadagent.Binary(), "job", "plan", file).CombinedOutput()
		if err == nil || !regexp.MustCompile(test.says).Match(out) {
			a.Errorf("plan: %v, want %q\n%s", err, test.says, out)
		}
	}
}

// testEnds ends allocations in every way that Nomad has. The snapshot of the caller
// shows that nothing is left.
func testEnds(a *agent) {
	before := sandbox.Snapshot(a)
	leavesNothing := func(how string) {
		a.Helper()
		a.Quiet()
		sandbox.RequireSame(a, before)
		if a.Failed() {
			a.Fatalf("that was after: %s", how)
		}
	}
	a.run("stopped", group{port: publish, selects: extra})
	a.Nomad("job", "stop", "-detach", "stopped")
	leavesNothing("stop")
	a.run("stopped", group{port: publish, selects: extra})
	a.Stop("stopped")
	leavesNothing("purge")

	a.run("ten", group{count: 10, port: publish, selects: extra})
	a.Nomad("job", "scale", "-detach", "ten", "g", "0")
	leavesNothing("count 0")
	a.Stop("ten")

	a.run("drained", group{port: publish, selects: extra})
	a.Nomad("node", "drain", "-enable", "-self", "-yes", "-detach", "-deadline", "1m")
	leavesNothing("drain")
	a.Nomad("node", "drain", "-disable", "-self", "-yes")
	a.AwaitRunning("drained", 1)
	a.Stop("drained")
	leavesNothing("purge after drain")

	a.submit("failing", group{port: publish, selects: extra, serve: `"fail"`})
	alloc := a.AwaitFailed("failing")
	if alloc.TaskStates["t"].Restarts != 2 {
		a.Errorf("the task was restarted %d times, want 2", alloc.TaskStates["t"].Restarts)
	}
	leavesNothing("a failed task and its restarts")
	a.Stop("failing")
}

// testUpdates updates a job in place, which keeps its networks, and with a change that
// replaces its allocation.
func testUpdates(a *agent) {
	job := group{port: publish, selects: extra}
	first := a.run("updated", job)[0]
	attached := first.Status()
	job.job = "priority = 70"
	if same := a.run("updated", job)[0]; same.ID != first.ID {
		a.Errorf("the update in place replaced %s by %s", first.ID, same.ID)
	}
	if diff := cmp.Diff(attached, first.Status()); diff != "" {
		a.Errorf("after an update in place: %s", diff)
	}
	job.selects = `"storage,backup"`
	a.submit("updated", job)
	var second nomadagent.Allocation
	a.Await("the allocation is replaced", func() bool {
		for _, alloc := range a.Allocations("updated") {
			if alloc.ID != first.ID && alloc.ClientStatus == "running" {
				second = alloc
			}
		}
		return second.ID != ""
	})
	if got := nomadagent.Networks(second.Setup()); got != "eth0=web net1=storage net2=backup" {
		a.Errorf("after the update: %s", got)
	}
	a.Stop("updated")
}

// testCrowd starts and stops many allocations of three networks at once.
func testCrowd(a *agent) {
	owner := map[string]string{}
	count := 100
	started := a.run("crowd", group{count: count, port: publish, selects: extra})
	onRecord := setups(a)
	for _, alloc := range started {
		attached := onRecord[alloc.ID]
		if attached == nil {
			a.Fatalf("%s is not on record", alloc.ID)
		}
		if got := nomadagent.Networks(attached); got != "eth0=web net1=storage net2=mgmt" {
			a.Errorf("%s has %s", alloc.ID, got)
		}
		for _, address := range attached.Addresses() {
			if other, taken := owner[address.String()]; taken {
				a.Errorf("%s has the address %s of %s", alloc.ID, address, other)
			}
			owner[address.String()] = alloc.ID
		}
	}
	if len(owner) != 3*count {
		a.Errorf("%d addresses of %d allocations, want three each", len(owner), count)
	}
	a.Stop("crowd")
}

// setups returns what allocnet has on record, by the ID of the allocation.
func setups(a *agent) map[string]*hook.Allocation {
	a.Helper()
	var all []*hook.Allocation
	if err := json.Unmarshal([]byte(sandbox.Run(a, allocnet, "status", "--json")), &all); err != nil {
		a.Fatal(err)
	}
	byID := map[string]*hook.Allocation{}
	for _, one := range all {
		byID[one.ID] = one
	}
	return byID
}

// mistake is a job that is refused, and what alloc status says of it.
type mistake struct {
	id    string
	job   group
	words []string
}

// mistakes are those of the form in which jobs select networks.
func mistakes(a *agent) []mistake {
	if a.arguments {
		return []mistake{
			{"mistyped", group{args: `network = "storage"`}, []string{`CNI argument "network"`, "want networks"}},
			{"unresolved", group{selects: `"storage@${NOMAD_META_nothing}"`}, []string{"NOMAD_META_nothing", "does not know"}},
			{"padded", group{selects: `"c3RvcmFnZQ=="`}, []string{"'='"}},
			{"forged", group{args: `"IP" = "10.2.0.9"`}, []string{`CNI argument "IP"`}},
			{"forged-identity", group{selects: `"closed"`, args: `"NOMAD_NAMESPACE" = "prod"`}, []string{namespaceOf(a)}},
		}
	}
	return []mistake{
		{"mistyped", group{networks: `meta = { "allocnet.network" = "storage" }`}, []string{"meta allocnet.network: is unknown", "want allocnet.networks"}},
		{"misplaced", group{task: `meta = { "allocnet.networks" = "storage" }`}, []string{"meta allocnet.networks of task t", "move it there"}},
		{"unresolved", group{selects: `"storage@${NOMAD_META_nothing}"`}, []string{"NOMAD_META_nothing", "has a variable"}},
		{"padded", group{selects: `"c3RvcmFnZQ=="`}, []string{`"c3RvcmFnZQ=="`, "meta allocnet.networks"}},
		{"lost-port", group{networks: "network {\nmode = \"cni/storage\"\n" + publish + "\n}"}, []string{"network[1].port", "move the port there"}},
	}
}

// namespaceOf is what an error says of the namespace of a job. Without the identity of
// allocations it is unknown.
func namespaceOf(a *agent) string {
	if a.arguments && !a.Has(nomad.Identity) {
		return "the namespace is unknown"
	}
	return `namespace "default"`
}

// testErrors checks the errors that alloc status shows to job authors.
func testErrors(a *agent) {
	const address = `jsonencode([{ name = "backup", ips = ["10.2.0.9/24"] }])`
	a.run("taken", group{selects: address})
	a.run("last", group{selects: `"tiny"`})
	tests := append(mistakes(a), []mistake{
		{"unknown", group{selects: `"storrage"`}, []string{`unknown network "storrage"`, "storage"}},
		{"denied", group{selects: `"closed"`}, []string{`network "closed" as net1 is denied`, namespaceOf(a), "43-closed.conflist"}},
		{"dynamic", group{selects: `jsonencode([{ name = "dynamic", ips = ["10.96.0.9/24"] }])`}, []string{"dynamic", "may not choose its addresses"}},
		{"full", group{selects: `"tiny"`}, []string{`network "tiny" as net1`, "all addresses of the network are in use"}},
		{"taken-too", group{selects: address}, []string{`network "backup" as net1`, "10.2.0.9", "another allocation has this address"}},
	}...)
	for _, test := range tests {
		a.submit(test.id, test.job)
	}
	for _, test := range tests {
		status := a.Nomad("alloc", "status", a.AwaitFailed(test.id).ID)
		for _, word := range test.words {
			if !strings.Contains(unwrap(status), word) {
				a.Errorf("%s: alloc status does not say %q:\n%s", test.id, word, status)
			}
		}
		a.Nomad("job", "stop", "-purge", "-detach", test.id)
	}
	a.Stop("taken", "last")
}

// unwrap undoes the line breaks of alloc status.
func unwrap(text string) string { return strings.Join(strings.Fields(text), " ") }
