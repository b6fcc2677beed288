// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/allocnet/allocnet/hook"
	"github.com/allocnet/allocnet/internal/sandbox"
)

// isolatedNetworks are one without isolation and a strict one, with bridges and leases of their own.
var isolatedNetworks = map[string]string{"popen": "none", "pstrict": "strict"}

const policyRules = `
allow "open reaches strict" {
  from { network = "popen" }
  to { network = "pstrict" }
  ports = ["5432/tcp"]
}
egress "strict" {
  from { network = "pstrict" }
  to { cidrs = ["10.98.0.1/32"] }
}
`

// TestPolicyTellsWhatPasses: what policy test says of a flow the kernel does.
func TestPolicyTellsWhatPasses(t *testing.T) {
	h := newHost(t)
	for name, level := range isolatedNetworks {
		sandbox.WriteFile(t, h.conf+"/85-"+name+".conflist", fmt.Sprintf(`{"cniVersion": "1.0.0", "name": %[1]q, "allocnet": {"ipv6": "off", "isolation": %[2]q}, "plugins": [{"type": "bridge", "bridge": "%[1]s0", "isGateway": true, "ipam": {
			"type": "host-local", "dataDir": "/run/policy-leases", "ranges": [[{"subnet": "10.98.%[3]d.0/24"}]], "routes": [{"dst": "0.0.0.0/0"}]}}]}`, name, level, len(name)-5))
	}
	if sandbox.Executor() == "plugins" {
		h.refuse(2, []string{`isolation "strict"`, "its plugins are executed"}, "attach", "db-1", "--primary", "pstrict")
		return
	}
	const rules = "/etc/allocnet/isolation.hcl"
	sandbox.Run(t, "mkdir", "-p", "/etc/allocnet")
	sandbox.WriteFile(t, rules, policyRules)
	defer os.RemoveAll("/run/policy-leases")
	defer os.Remove(rules)
	allocations := map[string]*hook.Allocation{}
	for id, network := range map[string]string{"web-1": "popen", "db-1": "pstrict", "db-2": "pstrict"} {
		allocations[id] = h.attach(id, "--primary", network)
		for _, port := range []string{"80", "5432"} {
			serve(t, allocations[id].Netns, ":"+port, id)
		}
	}
	for _, flow := range []struct {
		from, to string
		allowed  bool
	}{
		{"web-1", "db-1:5432", true}, {"web-1", "db-1:80", false}, {"db-1", "db-2:5432", false}, {"db-2", "web-1:80", false}, {"host", "db-1:80", true}, {"host", "web-1:80", true},
	} {
		told := h.allocnet("policy", "test", flow.from, flow.to)
		if (told.code == 0) != flow.allowed || (told.code == 4) == flow.allowed {
			t.Errorf("policy test %s %s: exit code %d, want it allowed: %t\n%s%s", flow.from, flow.to, told.code, flow.allowed, told.stdout, told.stderr)
		}
		id, port, _ := strings.Cut(flow.to, ":")
		if got := passes(flow.from, allocations[id].Attachments[0].Addresses[0].Addr().String()+":"+port, flow.allowed); got != flow.allowed {
			t.Errorf("%s to %s: passes %t, and policy test says\n%s", flow.from, flow.to, got, told.stdout)
		}
	}
	address := allocations["db-1"].Attachments[0].Addresses[0].Addr().String()
	rule := []string{"FORWARD", "-d", address + "/32", "-p", "tcp", "-m", "tcp", "--dport", "5432", "-j", "DROP"}
	sandbox.Run(t, append([]string{"iptables", "-I"}, rule...)...)
	told := h.allocnet("policy", "test", "web-1", "db-1:5432")
	if told.code != 4 || !strings.Contains(told.stdout, "dropped by the rule -A "+strings.Join(rule, " ")) || passes("web-1", address+":5432", false) {
		t.Errorf("with %v: exit code %d, and the flow does not pass\n%s%s", rule, told.code, told.stdout, told.stderr)
	}
	sandbox.Run(t, append([]string{"iptables", "-D"}, rule...)...)
	if told := h.allocnet("policy", "test", "web-1", "db-1:5432"); told.code != 0 || !passes("web-1", address+":5432", true) {
		t.Errorf("without the rule: exit code %d\n%s%s", told.code, told.stdout, told.stderr)
	}
	for id := range allocations {
		h.must("detach", id)
	}
	for name := range isolatedNetworks {
		sandbox.Run(t, "ip", "link", "delete", name+"0")
	}
}

// passes tells whether an address is reached from an allocation, or the host. What is expected to be denied is waited for a second only.
func passes(from, address string, expected bool) bool {
	limit := map[bool]string{true: "60", false: "1"}[expected]
	args := []string{"curl", "--silent", "--max-time", limit, "http://" + address}
	if from != "host" {
		args = append([]string{"ip", "netns", "exec", from}, args...)
	}
	return exec.Command(args[0], args[1:]...).Run() == nil
}
