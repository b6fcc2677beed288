// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package nomadagent

import (
	"fmt"
	"os/exec"
	"strings"
	"sync"

	"github.com/allocnet/allocnet/nomad"
)

// The first versions with what tests depend on, in addition to those of package nomad.
var (
	// TaskDNS: a task gets the DNS of the CNI result, without a dns block. So it does from
	// 1.6.9 on within 1.6.
	TaskDNS = nomad.Version{1, 7, 6}
	// LeasesInRun: the leases of Nomad's own bridge network do not outlive a boot.
	LeasesInRun = nomad.Version{1, 9, 4}
	// CheckOnRestart: the agent calls CHECK when it restarts.
	CheckOnRestart = nomad.Version{1, 9, 5}
	// ConnectOnCNI: a group in the mode cni/NAME can be in the service mesh.
	ConnectOnCNI = nomad.Version{1, 11, 0}
)

// version is that of Binary.
var version = sync.OnceValues(func() (nomad.Version, error) {
	out, err := exec.Command(Binary(), "version").CombinedOutput()
	words := strings.Fields(string(out))
	if err != nil || len(words) < 2 {
		return nomad.Version{}, fmt.Errorf("%s version: %w: %s", Binary(), err, out)
	}
	return nomad.ParseVersion(words[1])
})

// Version returns the agent's version. Tests of what older versions lack choose by it.
func (a *Agent) Version() nomad.Version {
	a.Helper()
	v, err := version()
	if err != nil {
		a.Fatal(err)
	}
	return v
}

// BinaryHas reports whether Binary has what a version was the first to have.
func BinaryHas(since nomad.Version) (bool, error) {
	v, err := version()
	return v.Has(since), err
}

// Has reports whether the agent has what a version was the first to have.
func (a *Agent) Has(since nomad.Version) bool {
	a.Helper()
	return a.Version().Has(since)
}
