// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package driver

import (
	"os"
	"regexp"
	"strings"

	"github.com/allocnet/allocnet/internal/sandbox"
)

// testDocumentation validates every job of the document. The first is the example job,
// which it runs unchanged.
func testDocumentation(a *agent) {
	const example = "../../dist/jobs/attachment-task.nomad.hcl"
	shown, err := os.ReadFile("../../docs/nomad-driver.md")
	if err != nil {
		a.Fatal(err)
	}
	text, err := os.ReadFile(example)
	if err != nil {
		a.Fatal(err)
	}
	jobs := regexp.MustCompile("(?s)```hcl\n(job .*?)```").FindAllStringSubmatch(string(shown), -1)
	if len(jobs) < 3 || jobs[0][1] != string(text) {
		a.Errorf("the document has %d jobs, and the first is to be %s", len(jobs), example)
	}
	for _, job := range jobs {
		sandbox.WriteFile(a, dir+"/documented.nomad.hcl", job[1])
		a.Nomad("job", "validate", dir+"/documented.nomad.hcl")
	}
	a.Nomad("job", "run", "-detach", example)
	alloc := a.AwaitRunning("db", 1)[0]
	address := alloc.Setup().Attachments[0].Addresses[0].Addr().String()
	var registered []struct{ Address string }
	a.Await("the service is registered", func() bool { return a.API("service/db-repl", &registered) == nil && len(registered) == 1 })
	if registered[0].Address != address {
		a.Errorf("registered is %+v, want %s", registered, address)
	}
	if out := alloc.Inside("ip", "-br", "addr", "show", "net1"); !strings.Contains(out, address) {
		a.Errorf("the namespace has\n%s", out)
	}
	a.Stop("db")
}
