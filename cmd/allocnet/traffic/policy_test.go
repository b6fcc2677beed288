// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package traffic

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/allocnet/allocnet/cmd/allocnet/cli"
	"github.com/allocnet/allocnet/state"
)

// policyHost has allocations on networks of each level, and a file of rules, whose path it returns.
func policyHost(t *testing.T) (rules string) {
	t.Helper()
	dir, conf := t.TempDir(), t.TempDir()
	store, err := state.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range []struct {
		id, namespace, job string
		on                 []string
	}{
		{"web-1", "prod", "web", []string{"open:br0:10.0.0.5", "lan::10.9.0.5"}}, {"db-1", "prod", "db", []string{"db:br1:10.1.0.5"}}, {"db-2", "dev", "db", []string{"db:br1:10.1.0.6", "six:br2:fd00::6"}},
	} {
		lock, err := store.Lock(context.Background(), a.id)
		if err != nil {
			t.Fatal(err)
		}
		if err := lock.Begin(state.Allocation{ID: a.id, Mode: state.ModeSetup, Identity: state.Identity{Namespace: a.namespace, Job: a.job}}, policyAttachments(a.id, a.on)); err != nil {
			t.Fatal(err)
		}
		lock.Unlock()
	}
	for name, level := range map[string]string{"open": "none", "db": "strict", "six": "network"} {
		text := fmt.Sprintf(`{"cniVersion": "1.0.0", "name": %q, "allocnet": {"isolation": %q}, "plugins": [{"type": "bridge"}]}`, name, level)
		if err := os.WriteFile(filepath.Join(conf, name+".conflist"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	remotes := `[{"host": "node-2", "network": "db", "level": "strict", "namespace": "prod", "job": "db", "addresses": ["10.1.0.9"], "via": "eth0", "confirmed": "` + time.Now().Format(time.RFC3339) + `"},
		{"host": "node-3", "network": "open", "level": "none", "namespace": "prod", "job": "web", "addresses": ["10.0.0.9"], "via": "eth0", "confirmed": "2020-01-02T03:04:05Z"}]`
	if err := store.Isolation().SetLearned("p", []byte(remotes), time.Now()); err != nil {
		t.Fatal(err)
	}
	t.Setenv("ALLOCNET_STATE_DIR", dir)
	t.Setenv("ALLOCNET_CONF_DIR", conf)
	rules = filepath.Join(t.TempDir(), "rules.hcl")
	const text = `allow "web reaches db" {
  from {
    job       = "web"
    namespace = "prod"
  }
  to { job = "db" }
  ports = ["5432/tcp"]
}
egress "dev" {
  from { namespace = "dev" }
  to   { cidrs = ["192.0.2.0/24"] }
  dns  = true
}
egress "typo" {
  from { namespace = "develop" }
}
`
	if err := os.WriteFile(rules, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return rules
}

// policyAttachments are those of NETWORK:BRIDGE:ADDRESS.
func policyAttachments(id string, on []string) (all []state.Attachment) {
	for i, text := range on {
		parts := strings.SplitN(text, ":", 3)
		plugin, bits := fmt.Sprintf(`{"type": "bridge", "bridge": %q}`, parts[1]), 24
		if parts[1] == "" {
			plugin = `{"type": "macvlan"}`
		}
		if strings.Contains(parts[2], ":") {
			bits = 64
		}
		a := state.Attachment{
			Network: parts[0], Interface: fmt.Sprintf("net%d", i), Index: i, Primary: i == 0, ContainerID: state.ContainerID(id, fmt.Sprintf("net%d", i)), Phase: state.Attached, Batch: state.Batch{Kind: state.BatchSetup},
			ConfList: fmt.Appendf(nil, `{"cniVersion": "1.0.0", "name": %q, "plugins": [%s]}`, parts[0], plugin),
			Result: fmt.Appendf(nil, `{"cniVersion": "1.0.0", "interfaces": [{"name": "veth%d", "mac": "02:00:00:00:00:01"}, {"name": "net%d", "mac": "02:00:00:00:00:02", "sandbox": "/x"}],
				"ips": [{"address": "%s/%d", "interface": 1}]}`, i, i, parts[2], bits),
			Status: fmt.Appendf(nil, `{"addresses": ["%s/%d"], "gateways": ["10.1.0.1"], "ports": [{"hostPort": %d, "containerPort": 5432, "protocol": "tcp", "hostIP": "127.0.0.1"}]}`, parts[2], bits, 8000+len(id)+i),
		}
		if i == 0 {
			a.ContainerID = id
		}
		all = append(all, a)
	}
	return all
}

// TestPolicyTest: what passes, by which rule, and the exit code of what does not.
func TestPolicyTest(t *testing.T) {
	rules := policyHost(t)
	for args, want := range map[string]string{
		"web-1 db-1:5432":             `0 allowed web-1@net0 (10.0.0.5) to db-1@net0 (10.1.0.5), 5432/tcp rule 1 allow "web reaches db" (RULES:1) has it`,
		"web db-1:5432/tcp":           "0 allowed web-1@net0",
		"web-1 db-1:5433":             `4 denied web-1@net0 (10.0.0.5) to db-1@net0 (10.1.0.5), 5433/tcp rule 5 network "db" has the isolation "strict"`,
		"web-1 db-1:5432/udp":         "4 denied rule 5",
		"web-1 db-1/icmp":             "4 denied web-1@net0 (10.0.0.5) to db-1@net0 (10.1.0.5), icmp rule 5",
		"db-1 db-2:80":                "4 denied rule 6",
		"db-1 db-1:80":                "0 allowed db-1@net0 (10.1.0.5) to db-1@net0 (10.1.0.5), 80/tcp inside it stays inside of the allocation",
		"db-2 10.1.0.6/icmp":          "0 allowed db-2@net0 (10.1.0.6) to db-2@net0 (10.1.0.6), icmp inside it stays inside of the allocation: the host does not see it filters no other filter",
		"db-1 host:8004":              "0 allowed db-1@net0 (10.1.0.5) to db-1@net0 (10.1.0.5), 5432/tcp rule 3 the port is published",
		"db-2 db-1:80":                `4 denied rule 2 egress "dev" (RULES:9) limits the source`,
		"db-2 192.0.2.1:80":           "0 allowed db-2@net0 (10.1.0.6) to 192.0.2.1, 80/tcp rule 8",
		"db-2 host:53/udp":            "0 allowed db-2@net0 (10.1.0.6) to this host (10.1.0.1), 53/udp rule 8",
		"db-2 host:22":                "4 denied rule 2",
		"db-2@net1 [fd00::9]:53/udp":  "0 allowed db-2@net1 (fd00::6) to fd00::9, 53/udp rule 8",
		"198.51.100.1 10.1.0.5:80":    "4 denied 198.51.100.1 to db-1@net0 (10.1.0.5), 80/tcp rule 7",
		"host db-1:80":                "0 allowed this host (10.1.0.1) to db-1@net0 (10.1.0.5), 80/tcp rule 4",
		"web-1 10.1.0.9:5432":         `0 allowed web-1@net0 (10.0.0.5) to job db of prod on node-2 (10.1.0.9), 5432/tcp rule 1 allow "web reaches db"`,
		"web-1 10.1.0.9:80":           "4 denied web-1@net0 (10.0.0.5) to job db of prod on node-2 (10.1.0.9), 80/tcp rule 5",
		"10.1.0.9 db-1:80":            "4 denied job db of prod on node-2 (10.1.0.9) to db-1@net0 (10.1.0.5), 80/tcp rule 6",
		"10.0.0.9 db-1:5432":          "4 denied an attachment to open on node-3 (10.0.0.9) to db-1@net0 (10.1.0.5), 5432/tcp rule 5",
		"127.0.0.1 db-1:80":           "0 allowed this host (127.0.0.1) to db-1@net0 (10.1.0.5), 80/tcp rule 4",
		"198.51.100.1 host:8004":      "0 allowed 198.51.100.1 to db-1@net0 (10.1.0.5), 5432/tcp rule 3 the port is published",
		"198.51.100.1 127.0.0.1:8004": "0 allowed 198.51.100.1 to db-1@net0 (10.1.0.5), 5432/tcp rule 3",
		"198.51.100.1 host:8004/udp":  "0 allowed 198.51.100.1 to this host, 8004/udp rule 8",
		"10.0.0.5 db-2@net1:80":       "2 10.0.0.5 and db-2@net1 have no addresses of one family",
		"web-1@net1 db-1:80":          "2 web-1@net1, network lan: its packets do not pass this host",
		"web-1@net7 db-1:80":          "2 allocation web-1 has no attachment net7",
		"none db-1:80":                "3 allocation none is not set up here",
		"d db-1:80":                   "2 prefix of 2 allocation IDs",
		"web-1 db-1":                  `2 TO "db-1": want a port, as in db-1:5432/tcp`,
		"web-1 db-1:0":                `2 TO "db-1:0": want a port`,
		"web-1 db-1:80-90":            `2 TO "db-1:80-90": want a port`,
		"web-1 :80":                   `2 TO ":80": want a port`,
		"web-1 db-1:80/gre":           `2 TO "db-1:80/gre": want a port`,
		"web-1":                       "2 got 1 arguments",
	} {
		code, out, errs := runs(t, append([]string{"policy", "test", "--rules", rules}, strings.Fields(args)...)...)
		got := strings.Join(strings.Fields(fmt.Sprint(code)+" "+out+errs), " ")
		for _, part := range strings.SplitAfter(strings.ReplaceAll(want[2:], "RULES", rules), " rule ") {
			if !strings.Contains(got, strings.TrimSuffix(part, " rule ")) {
				t.Errorf("%s: got\n%s\nwant %s", args, got, want)
			}
		}
		if !strings.HasPrefix(got, want[:1]) {
			t.Errorf("%s: exit code %d, want %s", args, code, want)
		}
	}
	code, out, _ := runs(t, "policy", "test", "--rules", rules, "web-1", "db-1:5432", "--json")
	var tested testedJSON
	if err := json.Unmarshal([]byte(out), &tested); err != nil || code != cli.ExitDone || !tested.Allowed || tested.Rule != 1 || tested.By != `allow "web reaches db"` || tested.Line != 1 || tested.Port != "5432/tcp" {
		t.Errorf("exit code %d, %v: %s", code, err, out)
	}
}

// TestPolicyShow: what reaches an allocation, what it reaches, and which rules are of no use.
func TestPolicyShow(t *testing.T) {
	rules := policyHost(t)
	show := func(args ...string) (int, string) {
		code, out, errs := runs(t, append([]string{"policy", "show", "--rules", rules}, args...)...)
		var lines []string
		for line := range strings.Lines(out + errs) {
			lines = append(lines, strings.Join(strings.Fields(line), " "))
		}
		return code, strings.ReplaceAll(strings.Join(lines, "\n"), rules, "RULES")
	}
	code, out := show()
	if want := `ALLOCATION INTERFACE NETWORK ISOLATION RULES
db-1 net0 db strict web reaches db
db-2 net0 db strict web reaches db, dev
db-2 net1 six network web reaches db, dev
web-1 net0 open none web reaches db
web-1 net1 lan - -
rule "typo" of RULES selects no attachment that is known`; code != cli.ExitDone || out != want {
		t.Errorf("exit code %d, got\n%s\nwant\n%s", code, out, want)
	}
	code, out = show("db-2")
	if want := `net0 of db-2, network db, isolation strict
PEER PORTS BY
reached by allowed namespace "prod" job "web" 5432/tcp allow "web reaches db" (RULES:1)
reached by allowed everything 127.0.0.1:8004->5432/tcp published ports
reached by allowed this host - it is on this host
reached by denied attachments of its network - isolation "strict" of network "db"
reached by denied attachments of other networks - isolation "strict" of network "db"
reached by denied everything else - isolation "strict" of network "db"
reaches denied everything but 192.0.2.0/24, 53/udp 53/tcp - egress "dev" (RULES:9)
reaches denied attachments of its network - isolation "strict" of network "db"
reaches denied attachments of other networks - isolation "strict" of network "db"
reaches allowed this host, and everything else - isolation "strict" of network "db"

net1 of db-2, network six, isolation network`; code != cli.ExitDone || !strings.HasPrefix(out, want) {
		t.Errorf("exit code %d, got\n%s\nwant\n%s", code, out, want)
	}
	if _, out := show("web-1"); !strings.Contains(out, "net1 of web-1, network lan: its packets do not pass this host, or it is not attached") {
		t.Errorf("a network without isolation: %s", out)
	}
	if _, out := show("-q"); out != "db-1\ndb-2\nweb-1" {
		t.Errorf("IDs: %s", out)
	}
	_, out, _ = runs(t, "policy", "show", "--rules", rules, "db-1", "--json")
	var all trafficJSON
	if err := json.Unmarshal([]byte(out), &all); err != nil || all.File != rules || len(all.Attachments) != 1 || len(all.Attachments[0].ReachedBy) != 6 || len(all.Unused) != 1 {
		t.Errorf("%v: %s", err, out)
	}
	if code, out := show("none"); code != cli.ExitNotSetUp {
		t.Errorf("an unknown allocation: exit code %d, %s", code, out)
	}
}

// TestPolicyInside: attachments that are kept apart inside are shown as such, and their traffic is told without the filters of the host.
func TestPolicyInside(t *testing.T) {
	rules := policyHost(t)
	const lan = `{"cniVersion": "1.0.0", "name": "lan", "allocnet": {"isolation": "strict", "enforce": "inside"}, "plugins": [{"type": "macvlan"}]}`
	if err := os.WriteFile(filepath.Join(os.Getenv("ALLOCNET_CONF_DIR"), "lan.conflist"), []byte(lan), 0o600); err != nil {
		t.Fatal(err)
	}
	for args, want := range map[string]string{
		"show":                            "web-1 net1 lan strict, inside web reaches db",
		"show web-1":                      "net1 of web-1, network lan, isolation strict, inside",
		"test 198.51.100.1 web-1@net1:80": `denied 198.51.100.1 to web-1@net1 (10.9.0.5), 80/tcp rule 7 network "lan" has the isolation "strict": nothing else reaches its attachments filters no other filter`,
		"test host web-1@net1:80":         "denied this host to web-1@net1 (10.9.0.5), 80/tcp rule 7",
		"test db-1 web-1@net1:80":         "denied db-1@net0 (10.1.0.5) to web-1@net1 (10.9.0.5), 80/tcp rule 5",
		"test web-1@net1 198.51.100.1:80": "allowed web-1@net1 (10.9.0.5) to 198.51.100.1, 80/tcp rule 8",
		"test web-1@net1 db-1:5432":       "denied web-1@net1 (10.9.0.5) to db-1@net0 (10.1.0.5), 5432/tcp rule 7",
	} {
		_, out, errs := runs(t, append([]string{"policy", strings.Fields(args)[0], "--rules", rules}, strings.Fields(args)[1:]...)...)
		if got := strings.Join(strings.Fields(out+errs), " "); !strings.Contains(got, want) {
			t.Errorf("%s: got\n%s\nwant %s", args, got, want)
		}
	}
}

// TestPolicyRules: rules that cannot be read are an error, and so is a file that is named and missing.
func TestPolicyRules(t *testing.T) {
	rules := policyHost(t)
	if err := os.WriteFile(rules, []byte("allow \"a\" {\n form {}\n}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for file, want := range map[string]string{rules: rules + ":2,2-6: Unsupported block type", rules + ".gone": "--rules: stat " + rules + ".gone: no such file or directory"} {
		for _, command := range []string{"show", "test web-1 db-1:80"} {
			args := append([]string{"policy"}, strings.Fields(command)...)
			if code, out, errs := runs(t, append(args, "--rules", file)...); code != cli.ExitRefused || !strings.Contains(errs, want) || out != "" {
				t.Errorf("%s with %s: exit code %d, %s%s, want %s", command, file, code, out, errs, want)
			}
		}
	}
}
