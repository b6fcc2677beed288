// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package nomad

import (
	"os"
	"os/exec"
	"strings"

	"github.com/allocnet/allocnet/internal/sandbox"
	"github.com/allocnet/allocnet/internal/sandbox/nomadagent"
	"github.com/allocnet/allocnet/nomad"
)

// testRestricted: Nomad does not offer a network with a policy as the network of a
// group. A job gets it through allocnet-cni only, which enforces the policy.
func testRestricted(a *agent) {
	requireUnreadReported(a)
	own := strings.Replace(group{}.hcl("own"), `mode = "cni/multi"`, `mode = "cni/closed"`, 1)
	a.Submit("own", own)
	var evaluations []struct {
		Status         string
		FailedTGAllocs map[string]struct{ ConstraintFiltered map[string]int }
	}
	a.Await("a job whose group is on the network is not placed", func() bool {
		evaluations = nil
		if err := a.API("job/own/evaluations", &evaluations); err != nil {
			return false
		}
		for _, e := range evaluations {
			if e.Status == "complete" && e.FailedTGAllocs["g"].ConstraintFiltered["missing network"] == 1 {
				return true
			}
		}
		return false
	})
	if placed := a.Allocations("own"); len(placed) > 0 {
		a.Errorf("placed: %+v", placed)
	}
	a.Nomad("job", "stop", "-purge", "-detach", "own")

	a.Nomad("namespace", "apply", "prod")
	if a.arguments && !a.Has(nomad.Identity) {
		testIdentityUnknown(a)
		return
	}
	a.submit("permitted", closedInProd)
	var list []struct{ ID, ClientStatus string }
	a.Await("the job of the namespace prod runs", func() bool {
		list = nil
		err := a.API("job/permitted/allocations?namespace=prod", &list)
		return err == nil && len(list) == 1 && list[0].ClientStatus == "running"
	})
	if out := sandbox.Run(a, allocnet, "status", "--namespace", "prod", "--job", "permitted"); !strings.Contains(out, list[0].ID) {
		a.Errorf("status does not know whose it is:\n%s", out)
	}
	a.submit("outside", group{selects: `"closed"`})
	status := unwrap(a.Nomad("alloc", "status", a.AwaitFailed("outside").ID))
	if !strings.Contains(status, `network "closed" as net1 is denied`) {
		a.Errorf("alloc status does not say that it is denied:\n%s", status)
	}
	a.Nomad("job", "stop", "-purge", "-detach", "outside")
	a.Nomad("job", "stop", "-purge", "-namespace", "prod", "permitted")
	a.Quiet()
}

// closedInProd is a job of the namespace prod, for which alone the network is.
var closedInProd = group{job: `namespace = "prod"`, selects: `"closed"`}

// testIdentityUnknown: without the identity of allocations, no job gets a network with a
// rule on namespaces. The error says so.
func testIdentityUnknown(a *agent) {
	a.submit("unknown", closedInProd)
	var failed []struct{ ID, ClientStatus string }
	a.Await("the job of the namespace prod fails", func() bool {
		failed = nil
		return a.API("job/unknown/allocations?namespace=prod", &failed) == nil && len(failed) == 1 && failed[0].ClientStatus == "failed"
	})
	if status := unwrap(a.Nomad("alloc", "status", "-namespace", "prod", failed[0].ID)); !strings.Contains(status, `network "closed" as net1 is denied: the namespace is unknown`) {
		a.Errorf("alloc status does not say that the namespace is unknown:\n%s", status)
	}
	a.Nomad("job", "stop", "-purge", "-namespace", "prod", "unknown")
	a.Quiet()
}

// testForged: a job of this version can set its identity, which the conflist accepts that
// was generated without asking Nomad. doctor reports it.
func testForged(a *agent) {
	forged := group{selects: `"closed"`, args: "\"NOMAD_NAMESPACE\" = \"prod\"\n\"NOMAD_ALLOC_ID\" = \"${NOMAD_ALLOC_ID}\""}
	if got := nomadagent.Networks(a.run("forged", forged)[0].Setup()); got != "eth0=web net1=closed" {
		a.Errorf("the job that forges its namespace has %s", got)
	}
	a.Stop("forged")
	out, _ := exec.Command(allocnet, "doctor", "--conf-dir", ownDir+":"+confDir, "--plugin-dir", plugins+":"+sandbox.PluginDir()).CombinedOutput() // exit code 1
	if want := confDir + "/00-multi.conflist: in Nomad " + a.Version().String() + " a job can set the namespace"; !strings.Contains(string(out), want) {
		a.Errorf("doctor does not say %q:\n%s", want, out)
	}
}

// requireUnreadReported: doctor asks Nomad which directory it reads, and reports a
// conflist for jobs in another one.
func requireUnreadReported(a *agent) {
	a.Helper()
	file := ownDir + "/99-lost.conflist"
	sandbox.WriteFile(a, file, `{"cniVersion": "1.0.0", "name": "lost", "plugins": [{"type": "allocnet-cni", "primary": "web"}]}`)
	defer os.Remove(file)
	out, _ := exec.Command(allocnet, "doctor", "--conf-dir", ownDir+":"+confDir, "--plugin-dir", plugins+":"+sandbox.PluginDir()).CombinedOutput() // exit code 1
	if want := "ERROR   " + file + ": Nomad does not read this directory, but " + confDir; !strings.Contains(string(out), want) {
		a.Errorf("doctor does not say %q:\n%s", want, out)
	}
}
