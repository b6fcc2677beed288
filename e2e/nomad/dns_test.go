// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package nomad

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/allocnet/allocnet/internal/sandbox"
	"github.com/allocnet/allocnet/internal/sandbox/nomadagent"
	"github.com/allocnet/allocnet/policy"
)

// testDNS: Nomad, and from 1.7.6 on a task, gets the DNS that the host's policy selects, which
// is that of an extra network here. The dns block of the group replaces it.
func testDNS(a *agent) {
	if err := os.MkdirAll(filepath.Dir(policy.DefaultFile), 0o755); err != nil {
		a.Fatal(err)
	}
	sandbox.WriteFile(a, policy.DefaultFile, `{"dns": "merge"}`)
	defer os.Remove(policy.DefaultFile)
	const names = `"names"`
	merged := a.run("merged", group{port: publish, driver: "exec", selects: names})[0]
	own := a.run("own", group{port: publish + "\ndns {\n servers = [\"192.0.2.9\"]\n}", driver: "exec", selects: names})[0]
	for _, alloc := range []nomadagent.Allocation{merged, own} {
		if got := alloc.NetworkStatus.DNS; got == nil || !slices.Equal(got.Servers, []string{"192.0.2.53"}) {
			a.Errorf("Nomad says of %s: %+v", alloc.JobID, got)
		}
	}
	wanted := map[*nomadagent.Allocation]string{&merged: "192.0.2.53", &own: "192.0.2.9"}
	if !a.Has(nomadagent.TaskDNS) {
		if got := resolvConf(a, merged); got != "" {
			a.Errorf("a task of this version has the resolv.conf\n%s", got)
		}
		delete(wanted, &merged)
	}
	for alloc, want := range wanted {
		got := resolvConf(a, *alloc)
		if !strings.Contains(got, "nameserver "+want+"\n") || strings.Count(got, "nameserver") != 1 {
			a.Errorf("%s has the resolv.conf\n%s, want the server %s", alloc.JobID, got, want)
		}
		if searched := strings.Contains(got, "search names.example\n"); searched != (alloc == &merged) {
			a.Errorf("%s searches names.example: %t", alloc.JobID, searched)
		}
	}
	a.Stop("merged", "own")
}

// resolvConf returns the resolv.conf of the task of an allocation; empty if it has none.
func resolvConf(a *agent, alloc nomadagent.Allocation) string {
	a.Helper()
	want, err := os.Stat(alloc.Setup().Netns)
	if err != nil {
		a.Fatal(err)
	}
	for _, namespace := range glob(a, "/proc/[0-9]*/ns/net") {
		process := filepath.Dir(filepath.Dir(namespace))
		info, err := os.Stat(namespace)
		if err != nil || !os.SameFile(info, want) { // or it has ended
			continue
		}
		if program, err := os.Readlink(process + "/exe"); err == nil && strings.HasSuffix(program, "/web") {
			data, err := os.ReadFile(process + "/root/etc/resolv.conf")
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				a.Fatal(err)
			}
			return string(data)
		}
	}
	a.Fatalf("the task of %s has no process", alloc.JobID)
	return ""
}
