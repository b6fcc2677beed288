// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package nomad

import (
	"os/exec"
	"strings"

	"github.com/allocnet/allocnet/internal/sandbox"
	"github.com/allocnet/allocnet/internal/sandbox/nomadagent"
)

// testNoArguments: this version of Nomad refuses a job with CNI arguments. conf generate
// says so, and its --networks gives each allocation the networks.
func testNoArguments(a *agent, generate []string) {
	a.Measured("main-network", "yes")
	a.Measured("arguments", "no")
	path := dir + "/arguments.nomad.hcl"
	sandbox.WriteFile(a, path, group{args: extra}.hcl("arguments"))
	out, err := exec.Command(nomadagent.Binary(), "job", "validate", path).CombinedOutput()
	if want := `Blocks of type "cni" are not expected here`; err == nil || !strings.Contains(unwrap(string(out)), want) {
		a.Errorf("job validate: %v, want %q\n%s", err, want, out)
	}
	out, err = exec.Command(generate[0], append(generate[1:], "--networks", "storage,mgmt@net5")...).CombinedOutput()
	if want := "in Nomad " + a.Version().String() + " a job cannot have CNI arguments"; err != nil || !strings.Contains(string(out), want) {
		a.Errorf("conf generate: %v, want %q\n%s", err, want, out)
	}
	if got := nomadagent.Networks(a.run("plain", group{port: publish})[0].Setup()); got != "eth0=web net1=storage net5=mgmt" {
		a.Errorf("the allocation has %s", got)
	}
	a.Stop("plain")
}
