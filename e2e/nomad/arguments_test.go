// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package nomad

import (
	"os/exec"
	"slices"
	"strings"

	"github.com/allocnet/allocnet/internal/sandbox"
	"github.com/allocnet/allocnet/internal/sandbox/nomadagent"
)

// testNoArguments: this version of Nomad refuses a job with CNI arguments. conf generate
// has jobs select networks by meta, or its --networks gives each allocation the networks.
func testNoArguments(a *agent, generate []string) {
	path := dir + "/arguments.nomad.hcl"
	sandbox.WriteFile(a, path, group{arguments: true, selects: extra}.hcl("arguments"))
	out, err := exec.Command(nomadagent.Binary(), "job", "validate", path).CombinedOutput()
	if want := `Blocks of type "cni" are not expected here`; err == nil || !strings.Contains(unwrap(string(out)), want) {
		a.Errorf("job validate: %v, want %q\n%s", err, want, out)
	}
	printed := sandbox.Run(a, append(slices.Clone(generate), "--networks", "storage,mgmt@net5", "--job-networks=false")...)
	if want := "in Nomad " + a.Version().String() + " a job has no CNI arguments"; !strings.Contains(printed, want) {
		a.Errorf("conf generate does not say %q:\n%s", want, printed)
	}
	if got := nomadagent.Networks(a.run("plain", group{port: publish})[0].Setup()); got != "eth0=web net1=storage net5=mgmt" {
		a.Errorf("the allocation has %s", got)
	}
	a.Stop("plain")
	// By itself it requires the agent, which does not run here.
	if printed := sandbox.Run(a, generate...); !strings.Contains(printed, `"allocnet.networks" = "`) {
		a.Errorf("conf generate does not show a job that works:\n%s", printed)
	}
	a.Submit("unread", group{selects: extra}.hcl("unread"))
	if status := unwrap(a.Nomad("alloc", "status", a.AwaitFailed("unread").ID)); !strings.Contains(status, "the agent is required") {
		a.Errorf("alloc status does not say that the agent is required:\n%s", status)
	}
	a.Stop("unread")
}
