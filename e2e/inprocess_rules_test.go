// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/containernetworking/cni/pkg/invoke"
	gocmp "github.com/google/go-cmp/cmp"
	"golang.org/x/sync/errgroup"

	"github.com/allocnet/allocnet/internal/inprocess"
	"github.com/allocnet/allocnet/internal/inprocess/plugin"
	"github.com/allocnet/allocnet/internal/sandbox"
)

// rulesCase is a chain of plugins that only make rules, for one attachment.
type rulesCase struct {
	name string
	// plugins are the configurations of a chain, in its order.
	plugins []string
	// addresses are those of the result that the chain gets.
	addresses []string
	// mappings are the capability portMappings.
	mappings string
	// legacy is whether iptables-legacy is to make the same rules.
	legacy bool
}

const (
	oneMapping  = `[{"hostPort": 8080, "containerPort": 80, "protocol": "tcp"}]`
	someMapping = `[{"hostPort": 8080, "containerPort": 80, "protocol": "tcp"},
		{"hostPort": 8080, "containerPort": 80, "protocol": "tcp"},
		{"hostPort": 5353, "containerPort": 53, "protocol": "udp", "hostIP": "127.0.0.1"},
		{"hostPort": 5354, "containerPort": 53, "protocol": "udp", "hostIP": "0.0.0.0"},
		{"hostPort": 5355, "containerPort": 53, "protocol": "udp", "hostIP": "fd00::1"},
		{"hostPort": 9000, "containerPort": 9001, "protocol": "sctp"}]`
)

var (
	v4   = []string{"10.0.0.5/24"}
	v6   = []string{"fd00::5/64"}
	dual = []string{"fd00::5/64", "10.0.0.5/24", "10.0.0.6/24"}
)

// manyMappings are more than one rule of iptables takes, which is 15.
func manyMappings() string {
	var all []string
	for port := 7000; port < 7017; port++ {
		all = append(all, fmt.Sprintf(`{"hostPort": %d, "containerPort": %d, "protocol": "tcp"}`, port, port-1000))
	}
	return "[" + strings.Join(all, ",") + "]"
}

func rulesCases() []rulesCase {
	cases := []rulesCase{
		{"conditions", []string{`{"type": "portmap", "backend": "iptables", "conditionsV4": ["!", "-d", "192.0.2.0/24", "-m", "comment", "--comment", "a \"b\" c\\d 'e'"], "conditionsV6": ["!", "-d", "2001:db8::/32"]}`}, dual, someMapping, true},
		{"highest mark bit", []string{`{"type": "portmap", "backend": "iptables", "markMasqBit": 31}`}, dual, oneMapping, false},
		{"external chain", []string{`{"type": "portmap", "backend": "iptables", "externalSetMarkChain": "EXTERNAL"}`}, v4, oneMapping, false},
		{"firewall with a chain of the administrator", []string{`{"type": "firewall", "iptablesAdminChainName": "ADMIN"}`}, v4, "[]", false},
		{"firewall and ports", []string{`{"type": "firewall"}`, `{"type": "portmap", "snat": true}`}, dual, someMapping, true},
		{"isolated", []string{`{"type": "firewall", "ingressPolicy": "isolated"}`}, v4, "[]", true},
	}
	for _, backend := range []string{"iptables", "nftables"} {
		add := func(name, keys, mappings string, addresses ...string) {
			conf := fmt.Sprintf(`{"type": "portmap", "backend": %q, %s}`, backend, keys)
			cases = append(cases, rulesCase{backend + ", " + name, []string{conf}, addresses, mappings, backend == "iptables" && name == "two families"})
		}
		add("two families", `"snat": true`, someMapping, dual...)
		add("many ports", `"snat": true`, manyMappings(), v4...)
		add("protocol in capitals", `"snat": true`, `[{"hostPort": 8080, "containerPort": 80, "protocol": "TCP"}]`, v4...)
		add("no such host IP", `"snat": true`, `[{"hostPort": 8080, "containerPort": 80, "protocol": "tcp", "hostIP": "nowhere"}]`, v6...)
	}
	return cases
}

// rulesExecutor executes a verb of a case with the reference plugins, or in this process.
type rulesExecutor func(t *testing.T, c rulesCase, verb, id string) (result string, err error)

// TestLongRulesInProcess compares the rules that the executor makes and removes with those of the
// reference plugins, for what the matrix of the differential test does not have.
func TestLongRulesInProcess(t *testing.T) {
	for _, c := range rulesCases() {
		t.Run(c.name, func(t *testing.T) { c.compare(t) })
	}
}

// TestLongLegacyRulesInProcess does the same with iptables-legacy for some.
func TestLongLegacyRulesInProcess(t *testing.T) {
	t.Setenv("PATH", sandbox.PathOfIPTables(t, "legacy"))
	for _, table := range []string{"nat", "filter"} { // those that exist are listed, also if they are empty
		sandbox.Run(t, "iptables", "-t", table, "-S")
		sandbox.Run(t, "ip6tables", "-t", table, "-S")
	}
	for _, c := range rulesCases() {
		if c.legacy {
			t.Run(c.name, func(t *testing.T) { c.compare(t) })
		}
	}
}

func (c rulesCase) compare(t *testing.T) {
	turns := func(first, second rulesExecutor) func(int) rulesExecutor {
		return func(i int) rulesExecutor { return []rulesExecutor{first, second}[i%2] }
	}
	whole := []string{"ADD one", "ADD two", "CHECK one", "CHECK two", "DEL two", "DEL one", "DEL one"}
	want := c.history(t, whole, turns(byReference, byReference))
	compareHistory(t, "by turns", want, c.history(t, whole, turns(byReference, inProcess)))
	compareHistory(t, "attached, checked and removed", want, c.history(t, whole, turns(inProcess, inProcess)))
	compareHistory(t, "by turns, first in process", want, c.history(t, whole, turns(inProcess, byReference)))
	verbs := []string{"CHECK one", "DEL one", "ADD one", "ADD one", "CHECK one", "DEL one"}
	if c.randomCheck() {
		verbs = verbs[1:]
	}
	want = c.history(t, verbs, turns(byReference, byReference))
	compareHistory(t, "removed before it is attached, and attached twice", want, c.history(t, verbs, turns(inProcess, inProcess)))
}

// randomCheck tells whether the reference plugins choose at random which family they check
// first. A failing CHECK of the firewall plugin makes that family's chains.
func (c rulesCase) randomCheck() bool {
	return strings.Contains(c.plugins[0], "firewall") && len(c.addresses) > 1
}

func compareHistory(t *testing.T, name string, want, got []string) {
	t.Helper()
	if diff := gocmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-reference +in process):\n%s", name, diff)
	}
}

// history returns what the host has after each verb on a fresh host, and the results.
func (c rulesCase) history(t *testing.T, verbs []string, executor func(int) rulesExecutor) []string {
	t.Helper()
	sandbox.FlushRules(t)
	defer sandbox.FlushRules(t)
	if strings.Contains(c.plugins[0], "EXTERNAL") {
		sandbox.Run(t, "iptables", "-t", "nat", "-N", "EXTERNAL")
	}
	var history []string
	for i, step := range verbs {
		verb, id, _ := strings.Cut(step, " ")
		result, err := executor(i)(t, c, verb, id)
		history = append(history, fmt.Sprintf("%s: failed %v\n%s\n%s", step, err != nil, result, rulesOf(t)))
		if err != nil {
			t.Logf("%s: %v", step, err)
		}
	}
	return history
}

func byReference(t *testing.T, c rulesCase, verb, id string) (string, error) {
	return c.execute(t, &invoke.RawExec{}, sandbox.ReferenceDir(), verb, id)
}

// inProcess executes the chain in this process. CHECK is that of the plugins, of what was made here.
func inProcess(t *testing.T, c rulesCase, verb, id string) (string, error) {
	if verb == "CHECK" {
		return byReference(t, c, verb, id)
	}
	chain := &inprocess.Chain{}
	result, err := c.execute(t, chain, "", verb, id)
	if err != nil {
		return result, err
	}
	if err := plugin.Commit(context.Background(), nil, []*plugin.Changes{chain.Changes()})[0]; err != nil {
		return "", err
	}
	return result, nil
}

type pluginExec interface {
	ExecPlugin(ctx context.Context, path string, stdin []byte, environ []string) ([]byte, error)
}

// execute executes the plugins of the chain, for DEL in reverse order.
func (c rulesCase) execute(t *testing.T, e pluginExec, dir, verb, id string) (string, error) {
	t.Helper()
	environ := []string{
		"CNI_COMMAND=" + verb, "CNI_CONTAINERID=" + id, "CNI_NETNS=/run/netns/" + id, "CNI_IFNAME=eth0",
		"PATH=" + os.Getenv("PATH"), "CNI_PATH=" + dir,
	}
	var out []byte
	for i := range c.plugins {
		conf := c.plugins[i]
		if verb == "DEL" {
			conf = c.plugins[len(c.plugins)-1-i]
		}
		stdin, name := c.stdin(t, conf, id)
		var err error
		if out, err = e.ExecPlugin(context.Background(), filepath.Join(dir, name), stdin, environ); err != nil {
			return "", err
		}
	}
	return string(out), nil
}

// stdin returns the configuration of a plugin with what libcni adds.
func (c rulesCase) stdin(t *testing.T, conf, id string) (stdin []byte, name string) {
	t.Helper()
	var keys map[string]any
	if err := json.Unmarshal([]byte(conf), &keys); err != nil {
		t.Fatal(err)
	}
	var ips []map[string]any
	for _, address := range c.addresses {
		if id == "two" {
			address = strings.Replace(address, "5/", "15/", 1)
		}
		if index, ok := strings.CutPrefix(id, "c"); ok { // one of many
			address = strings.NewReplacer("5/", "1"+index+"/", "6/", "2"+index+"/").Replace(address)
		}
		ips = append(ips, map[string]any{"address": address, "interface": 1})
	}
	keys["name"], keys["cniVersion"] = "net", "1.0.0"
	keys["runtimeConfig"] = map[string]any{"portMappings": json.RawMessage(c.mappings)}
	keys["prevResult"] = map[string]any{
		"cniVersion": "1.0.0",
		"interfaces": []map[string]any{{"name": "br0"}, {"name": "eth0", "sandbox": "/run/netns/" + id}},
		"ips":        ips,
	}
	stdin, err := json.Marshal(keys)
	if err != nil {
		t.Fatal(err)
	}
	return stdin, keys["type"].(string)
}

// rulesVolatile matches counters, and the dates in comments of iptables-save.
var rulesVolatile = regexp.MustCompile(`(?m)^#.*\n|\[\d+:\d+\]|counter packets \d+ bytes \d+`)

// pluginTables matches the tables of nftables that plugins make for themselves.
var pluginTables = regexp.MustCompile(`(?ms)^table (inet cni_plugins_masquerade|ip6? cni_hostport) .*?^}\n`)

// rulesOf returns the rules of all backends. Those of iptables-nft are listed by it alone: nft
// shows in which order chains were made.
func rulesOf(t *testing.T) string {
	t.Helper()
	ruleset := sandbox.Run(t, "nft", "list", "ruleset")
	all := pluginTables.FindAllString(ruleset, -1)
	slices.Sort(all)
	for _, command := range sandbox.IPTablesListings(ruleset) {
		all = append(all, sandbox.Run(t, command))
	}
	return rulesVolatile.ReplaceAllString(strings.Join(all, ""), "")
}

// TestNarrowRulesInProcess: what all attachments share is made also where the administrator has
// rules that lead to the same chains for some packets only.
func TestNarrowRulesInProcess(t *testing.T) {
	c := rulesCase{plugins: []string{`{"type": "firewall"}`, `{"type": "portmap", "backend": "iptables", "snat": false}`}, addresses: v4, mappings: oneMapping}
	var got [2]string
	for i, executor := range []rulesExecutor{byReference, inProcess} {
		sandbox.FlushRules(t)
		defer sandbox.FlushRules(t)
		for _, rule := range []string{
			"filter -N CNI-FORWARD", "filter -N CNI-ADMIN", "nat -N CNI-HOSTPORT-DNAT",
			"filter -A FORWARD -i eth9 -j CNI-FORWARD", "filter -A CNI-FORWARD -s 192.0.2.1 -j CNI-ADMIN",
			"nat -A PREROUTING -i eth9 -m addrtype --dst-type LOCAL -j CNI-HOSTPORT-DNAT", "nat -A OUTPUT -p tcp -j CNI-HOSTPORT-DNAT",
		} {
			sandbox.Run(t, append([]string{"iptables", "-t"}, strings.Fields(rule)...)...)
		}
		if _, err := executor(t, c, "ADD", "one"); err != nil {
			t.Fatal(err)
		}
		got[i] = rulesOf(t)
	}
	compareHistory(t, "after ADD", strings.Split(got[0], "\n"), strings.Split(got[1], "\n"))
}

// manyRules is how many attachments make and remove rules at the same time.
const manyRules = 16

// TestLongRulesOfManyInProcess has many processes change rules at the same time, on a host that
// has none of what they share. None of them is lost, and what is shared is made once.
func TestLongRulesOfManyInProcess(t *testing.T) {
	t.Run("iptables-nft", func(t *testing.T) { compareCrowd(t, "iptables") })
	t.Run("nftables", func(t *testing.T) { compareCrowd(t, "nftables") })
	t.Run("iptables-legacy", func(t *testing.T) {
		t.Setenv("PATH", sandbox.PathOfIPTables(t, "legacy"))
		compareCrowd(t, "iptables")
	})
}

func compareCrowd(t *testing.T, backend string) {
	c := rulesCase{plugins: []string{`{"type": "firewall", "ingressPolicy": "isolated"}`, fmt.Sprintf(`{"type": "portmap", "backend": %q}`, backend)}, addresses: dual, mappings: oneMapping}
	sandbox.FlushRules(t)
	defer sandbox.FlushRules(t)
	c.each(t, "ADD", 1)
	c.each(t, "DEL", 1)
	shared := rulesOf(t)
	c.each(t, "ADD", manyRules)
	c.each(t, "CHECK", manyRules)
	c.each(t, "DEL", manyRules)
	compareHistory(t, "after the removal of all", strings.Split(shared, "\n"), strings.Split(rulesOf(t), "\n"))
	sandbox.FlushRules(t)
	c.each(t, "ADD", manyRules)
	c.each(t, "CHECK", manyRules)
	c.each(t, "DEL", manyRules)
	compareHistory(t, "after the removal of all that had begun with nothing", strings.Split(shared, "\n"), strings.Split(rulesOf(t), "\n"))
}

// each executes a verb in this process for several attachments at the same time.
func (c rulesCase) each(t *testing.T, verb string, count int) {
	t.Helper()
	var group errgroup.Group
	for i := range count {
		group.Go(func() error {
			_, err := inProcess(t, c, verb, fmt.Sprintf("c%d", i))
			return err
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatalf("%s: %v", verb, err)
	}
}

// TestRulesOfOthersInProcess has the rules of one attachment fail: those of the others in the
// same transaction are made.
func TestRulesOfOthersInProcess(t *testing.T) {
	sandbox.FlushRules(t)
	defer sandbox.FlushRules(t)
	good := rulesCase{plugins: []string{`{"type": "firewall"}`, `{"type": "portmap", "backend": "iptables"}`}, addresses: v4, mappings: oneMapping}
	bad := good
	bad.plugins = []string{`{"type": "portmap", "backend": "iptables", "externalSetMarkChain": "MISSING"}`}
	var changes []*plugin.Changes
	for id, c := range map[string]rulesCase{"one": good, "two": bad} {
		chain := &inprocess.Chain{}
		if _, err := c.execute(t, chain, "", "ADD", id); err != nil {
			t.Fatal(err)
		}
		changes = append(changes, chain.Changes())
	}
	failed := 0
	for _, err := range plugin.Commit(context.Background(), nil, changes) {
		if err != nil {
			failed++
		}
	}
	if failed != 1 {
		t.Errorf("%d attachments failed, want 1", failed)
	}
	if _, err := inProcess(t, good, "CHECK", "one"); err != nil {
		t.Error(err)
	}
	if _, err := inProcess(t, bad, "DEL", "two"); err != nil {
		t.Error(err)
	}
	got := rulesOf(t)
	sandbox.FlushRules(t)
	if _, err := inProcess(t, good, "ADD", "one"); err != nil {
		t.Fatal(err)
	}
	compareHistory(t, "after the removal of the one that failed", strings.Split(rulesOf(t), "\n"), strings.Split(got, "\n"))
}
