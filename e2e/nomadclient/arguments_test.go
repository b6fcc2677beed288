// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package nomadclient

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/allocnet/allocnet/internal/sandbox"
	"github.com/allocnet/allocnet/internal/sandbox/nomadagent"
	"github.com/allocnet/allocnet/internal/sandbox/nomadclient"
	"github.com/allocnet/allocnet/nomad"
	"github.com/allocnet/allocnet/policy"
)

// TestIssue runs the job of the documentation in its two forms, and in several blocks.
func TestIssue(t *testing.T) {
	eachVersion(t, func(h *host) {
		one := h.one(group("one", args{"networks": "storage,mgmt@net5"}, nomadclient.Network{Mode: "cni/backup", Args: args{
			"networks.backup": `{"interface":"net7","ips":["10.2.0.1${NOMAD_ALLOC_INDEX}/24"]}`,
		}}))
		two := h.one(group("two", args{"networks": `[{"name":"storage","ips":["10.89.7.7/16"]},{"name":"mgmt"}]`}))
		first := h.requireNetworks(one, "eth0=web net1=storage net5=mgmt net7=backup")
		second := h.requireNetworks(two, "eth0=web net1=storage net2=mgmt")
		if got := address(h.T, first, "net7"); got != "10.2.0.10" {
			h.Errorf("net7 has %s, and the index of the allocation is 0", got)
		}
		for _, a := range []*nomadclient.Allocation{one, two} {
			h.task(a)
			if got := sandbox.Run(h.T, web, "get", url(a)); !strings.HasPrefix(got, a.Group.Job+" 0, to ") {
				h.Errorf("%s answers %q", url(a), got)
			}
			if want := address(h.T, h.setup(a), "eth0"); a.Status.Address != want || a.Status.InterfaceName != "eth0" {
				h.Errorf("Nomad says %+v of %s, want %s", a.Status, a.Group.Job, want)
			}
			h.requireStatusFile(a)
			if got := inside(h.T, a, "ip", "link", "show", "lo"); !strings.Contains(got, "LOOPBACK,UP") { // Nomad leaves it down
				h.Errorf("%s has lo down:\n%s", a.Group.Job, got)
			}
		}
		if got := inside(h.T, one, web, "get", "http://"+address(h.T, second, "net1")); !strings.HasPrefix(got, "two 0, to "+address(h.T, first, "net1")) {
			h.Errorf("over the extra network two answers %q", got)
		}
		if got := inside(h.T, two, web, "get", "http://"+address(h.T, first, "net5")); !strings.HasPrefix(got, "one 0, to "+address(h.T, second, "net2")) {
			h.Errorf("over the extra network one answers %q", got)
		}
		want := policy.Identity{}
		if h.config.Version.Has(nomad.Identity) {
			want = policy.Identity{Namespace: "default", Job: "one", Group: "g", Region: "global"}
		}
		if first.Identity != want {
			h.Errorf("identity on record: %+v, want %+v", first.Identity, want)
		}
		h.stop(one, two)
	})
}

// requireStatusFile compares network-status.json with the record.
func (h *host) requireStatusFile(a *nomadclient.Allocation) {
	h.Helper()
	want, err := json.MarshalIndent(h.setup(a).NetworkStatus(), "", "  ")
	if err != nil {
		h.Fatal(err)
	}
	if got := strings.TrimSpace(read(h.T, allocDir+"/"+a.ID+"/alloc/network-status.json")); got != string(want) {
		h.Errorf("network-status.json of %s is\n%s\nwant\n%s", a.Group.Job, got, want)
	}
}

// jobs returns the groups of every example with CNI arguments, and of those in the documents.
func jobs(t *testing.T) (groups []nomadclient.Group) {
	t.Helper()
	var texts []string
	for _, file := range glob(t, "../../dist/jobs/arguments/*.nomad.hcl") {
		texts = append(texts, read(t, file))
	}
	for _, page := range []string{"README.md", "docs/nomad.md", "docs/two-networks.md", "docs/vlan.md"} {
		for _, block := range regexp.MustCompile("(?s)```hcl\n *(job .*?)```").FindAllStringSubmatch(read(t, "../../"+page), -1) {
			texts = append(texts, block[1])
		}
	}
	for _, text := range texts {
		if !strings.Contains(text, "cni {") {
			continue
		}
		parsed, err := nomadclient.ParseJob(text)
		if err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		groups = append(groups, parsed...)
	}
	return groups
}

// TestExamples runs every example job with CNI arguments.
func TestExamples(t *testing.T) {
	examples := jobs(t)
	if len(examples) < 8 {
		t.Errorf("%d examples have CNI arguments, want more", len(examples))
	}
	oldestAndNewest(t, func(h *host) {
		for _, g := range examples {
			if g.Connect {
				continue // TestConnect
			}
			allocations := h.start(g)
			for _, a := range allocations {
				if found := h.setup(a); len(found.Attachments) < 2 {
					h.Errorf("%s has %s", g.Job, nomadagent.Networks(found))
				}
			}
			h.stop(allocations...)
		}
	})
}

// TestConnect runs the example of the service mesh, with a transparent proxy: the plugins of the main
// network get its rules, as consul-cni does. Nomad refuses a second network block, and up to 1.10 the
// mode cni/NAME.
func TestConnect(t *testing.T) {
	eachVersion(t, func(h *host) {
		var mesh nomadclient.Group
		for _, g := range jobs(h.T) {
			if g.Connect {
				mesh = g
			}
		}
		mesh.TransparentProxy = true
		second := mesh
		second.Networks = append(second.Networks[:1:1], nomadclient.Network{Mode: "cni/storage"})
		if got := h.refuse(second); !strings.Contains(got, "exactly 1 network") {
			h.Errorf("a second block: %q", got)
		}
		if !h.config.Version.Has(nomadclient.ConnectOnCNI) {
			if got := h.refuse(mesh); !strings.Contains(got, `requires bridge network, found "cni/multi"`) {
				h.Errorf("the mode cni/multi: %q", got)
			}
			return
		}
		script := filepath.Join(h.TempDir(), "rules")
		h.write(plugins+"/consul-cni", "#!/bin/sh\n[ $CNI_COMMAND = ADD ] && echo \"$CNI_ARGS\" >>"+script+"\nsed 's/.*\"prevResult\"://; s/,\"type\":.*//'\n")
		h.Cleanup(func() { _ = os.Remove(plugins + "/consul-cni") })
		if err := os.Chmod(plugins+"/consul-cni", 0o755); err != nil {
			h.Fatal(err)
		}
		h.write(confDir+"/10-web.conflist", regexp.MustCompile(`\]\s*\}\s*$`).ReplaceAllString(read(h.T, confDir+"/10-web.conflist"), `, {"type": "consul-cni"}]}`))
		a := h.one(mesh)
		h.requireNetworks(a, "eth0=web repl0=storage")
		given := read(h.T, script)
		if want := `CONSUL_IPTABLES_CONFIG={"ConsulDNSIP":"`; !strings.Contains(given, want) || !strings.Contains(given, `"NetNS":"/var/run/netns/`+a.ID) {
			h.Errorf("consul-cni has the arguments %q, want %q", given, want)
		}
		h.stop(a)
	})
}

// TestErrors checks the errors that alloc status shows to job authors.
func TestErrors(t *testing.T) {
	eachVersion(t, func(h *host) {
		address := args{"networks": `[{"name":"backup","ips":["10.2.0.9/24"]}]`}
		taken := h.one(group("taken", address))
		namespace := `namespace "default"`
		if !h.config.Version.Has(nomad.Identity) {
			namespace = "the namespace is unknown"
		}
		for id, test := range map[string]struct {
			args  args
			words []string
		}{
			"unknown":         {args{"networks": "storrage"}, []string{`unknown network "storrage"`, "storage"}},
			"denied":          {args{"networks": "closed"}, []string{`network "closed" as net1 is denied`, namespace, "43-closed.conflist"}},
			"dynamic":         {args{"networks": `[{"name":"dynamic","ips":["10.96.0.9/24"]}]`}, []string{"dynamic", "may not choose its addresses"}},
			"taken-too":       {address, []string{`network "backup" as net1`, "10.2.0.9", "another allocation has this address"}},
			"mistyped":        {args{"network": "storage"}, []string{`CNI argument "network"`, "want networks"}},
			"unresolved":      {args{"networks": "storage@${NOMAD_META_nothing}"}, []string{"NOMAD_META_nothing", "does not know"}},
			"padded":          {args{"networks": "c3RvcmFnZQ=="}, []string{"'='"}},
			"forged":          {args{"IP": "10.2.0.9"}, []string{`CNI argument "IP"`}},
			"forged-identity": {args{"networks": "closed", "NOMAD_NAMESPACE": "prod"}, []string{namespace}},
		} {
			got := h.refuse(group(id, test.args))
			for _, word := range test.words {
				if !strings.Contains(got, word) {
					h.Errorf("%s: %q does not say %q", id, got, word)
				}
			}
		}
		h.stop(taken)
	})
}

// TestLongFull: the error of the first attempt names the network whose addresses are all in use.
func TestLongFull(t *testing.T) {
	h := newHost(t, newest())
	last := h.one(group("last", args{"networks": "tiny"}))
	got := h.refuse(group("full", args{"networks": "tiny"}))
	for _, word := range []string{`network "tiny" as net1`, "all addresses of the network are in use"} {
		if !strings.Contains(got, word) {
			t.Errorf("%q does not say %q", got, word)
		}
	}
	h.stop(last)
}

// TestRestricted: a network for one namespace. Without the identity of allocations no job gets it, and
// the error says so.
func TestRestricted(t *testing.T) {
	eachVersion(t, func(h *host) {
		closed := group("permitted", args{"networks": "closed"})
		closed.Namespace = "prod"
		if !h.config.Version.Has(nomad.Identity) {
			if got := h.refuse(closed); !strings.Contains(got, `network "closed" as net1 is denied: the namespace is unknown`) {
				h.Errorf("the error does not say that the namespace is unknown: %s", got)
			}
			return
		}
		permitted := h.one(closed)
		h.requireNetworks(permitted, "eth0=web net1=closed")
		if got := h.refuse(group("denied", args{"networks": "closed"})); !strings.Contains(got, `network "closed" as net1 is denied`) {
			h.Errorf("the error does not say that it is denied: %s", got)
		}
		h.stop(permitted)
	})
}

// TestForged: before 1.9.4 a job can set its identity, which a conflist accepts that was generated without
// asking Nomad. doctor reports it. Later a job cannot.
func TestForged(t *testing.T) {
	eachVersion(t, func(h *host) {
		h.allocnet(append(h.generate(), "--alloc-dir", allocDir)...)
		forged := group("forged", args{"networks": "closed", "NOMAD_NAMESPACE": "prod", "NOMAD_ALLOC_ID": "${NOMAD_ALLOC_ID}"})
		out, _ := exec.Command(allocnet, "doctor", "--conf-dir", ownDir+":"+confDir, "--plugin-dir", plugins+":"+sandbox.PluginDir()).CombinedOutput() // exit code 1
		want := confDir + "/00-multi.conflist: in Nomad " + h.config.Version.String() + " a job can set the namespace"
		if strings.Contains(string(out), want) != h.config.Version.JobsForgeIdentity() {
			h.Errorf("doctor says %q: want that before 1.9.4 alone:\n%s", want, out)
		}
		if !h.config.Version.JobsForgeIdentity() {
			if got := h.refuse(forged); !strings.Contains(got, `namespace "default"`) {
				h.Errorf("the job that forges its namespace: %s", got)
			}
			return
		}
		a := h.one(forged)
		h.requireNetworks(a, "eth0=web net1=closed")
		h.stop(a)
		h.allocnet(h.generate()...) // asks Nomad
		if got := h.refuse(forged); !strings.Contains(got, "the namespace is unknown") {
			h.Errorf("the job that forges its namespace: %s", got)
		}
	})
}

// TestUnusualArguments: keys and values that Nomad passes unharmed, of several blocks and in any order, do
// what they say, or are refused by name.
func TestUnusualArguments(t *testing.T) {
	h := newHost(t, newest())
	for i, more := range []args{{"IgnoreUnknown": "false"}, {"NOMAD_FUTURE": "1"}, {"ADDRESS_KEY": "first"}, {"NOMAD_JOB_ID": "other"}} {
		a := h.one(group("accepted", more, nomadclient.Network{Args: args{"networks.storage": ""}}, nomadclient.Network{Args: args{"networks.mgmt": `{ "interface": "a.b" }`}}))
		found := h.requireNetworks(a, "eth0=web a.b=mgmt net2=storage")
		if found.Identity.Job != "accepted" {
			h.Errorf("%d: the identity is %+v", i, found.Identity)
		}
		h.stop(a)
	}
	for key, value := range map[string]string{"nets/json": "[]", "storage.ip": "10.0.0.1", "networks/a": "", "networks.": "", "networks.../x": "", "a b\n": "c", "networks.storage": "{", "": "x"} {
		if got := h.refuse(group("refused", args{key: value})); !strings.Contains(got, strings.Trim(key, " \n")) || got == "" {
			h.Errorf("%q = %q: the error does not name it: %s", key, value, got)
		}
	}
	for _, bad := range []nomadclient.Group{group("twice", extra, nomadclient.Network{Args: extra}), group("semicolon", args{"networks": "a;IP=1"})} {
		if got := h.refuse(bad); !strings.Contains(got, "';'") {
			h.Errorf("%s: Nomad refuses it: %s", bad.Job, got)
		}
	}
}
