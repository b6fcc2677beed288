// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package e2e

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/allocnet/allocnet/internal/sandbox"
)

// installPlugin puts allocnet-cni into the host's plugin directory.
func (h *host) installPlugin() {
	h.t.Helper()
	dir, err := installPlugin()
	if err == nil {
		err = os.Symlink(filepath.Join(dir, "allocnet-cni"), filepath.Join(h.plugins, "allocnet-cni"))
	}
	if err != nil {
		h.t.Fatal(err)
	}
}

// TestConfGenerate: generated conflists work, with a new name and with the old one.
func TestConfGenerate(t *testing.T) {
	h := newHost(t)
	h.refuse(2, []string{"allocnet-cni", "not installed"}, "conf", "generate", "web", "--alloc-dir", "none")
	h.installPlugin()
	for _, name := range []string{"multi", "storage"} {
		arguments := []string{"conf", "generate", "storage", "--name", name, "--networks", "vlan", "--alloc-dir", "none"}
		h.refuse(1, []string{"00-" + name}, append(arguments, "--check")...)
		output := h.must(arguments...)
		if !strings.Contains(output, `mode = "cni/`+name+`"`) || !strings.Contains(output, `networks = "web,`) {
			t.Errorf("a job's author is told:\n%s", output)
		}
		h.must(append(arguments, "--check")...)
		h.must(arguments...) // again: its own output is no source
		h.refuse(1, []string{"without --check"}, append(arguments, "--check", "--alloc-dir", "/x")...)

		file := filepath.Join(h.conf, "00-"+name+".conflist")
		r := h.runtimeOf(strings.Replace(read(t, file), `"confDir"`, `"stateDir": "`+h.state+`", "confDir"`, 1))
		c := h.container("c-"+name, "networks=peer")
		r.add(c)
		if got := inside(t, c); !slices.Equal(got, []string{"eth0", "net1", "net2"}) {
			t.Errorf("%s: interfaces inside: %v", name, got)
		}
		r.del(c)
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.RemoveAll("/var/lib/cni/networks/storage-primary"); err != nil { // what host-local keeps of every network
		t.Fatal(err)
	}
}

// TestConfWithoutPlugins: a network that allocnet executes itself needs no plugins, and one that
// it does not names why.
func TestConfWithoutPlugins(t *testing.T) {
	h := newHost(t)
	h.withoutPlugins()
	h.installPlugin()
	sandbox.WriteFile(t, h.conf+"/86-mistaken.conflist", `{"cniVersion": "1.0.0", "name": "mistaken", "plugins": [{"type": "bridge", "isGatewy": true}]}`)
	h.refuse(2, []string{`unknown field "isGatewy"`}, "conf", "generate", "web", "--networks", "mistaken", "--alloc-dir", "none")
	h.refuse(2, []string{`unknown network "wbe"`}, "conf", "generate", "wbe") // and does not ask for Nomad
	h.must("conf", "generate", "web", "--networks", "storage", "--alloc-dir", "none")
}

// TestConfDirectories: networks with a policy are in a directory of their own, and doctor
// reports those that Nomad would offer.
func TestConfDirectories(t *testing.T) {
	h := newHost(t)
	h.installPlugin()
	own, nomad := t.TempDir(), h.conf
	closed := `{"cniVersion": "1.0.0", "name": "closed", "allocnet": {"namespaces": ["prod"]}, "plugins": [
		{"type": "bridge", "bridge": "storage0", "ipam": {"type": "host-local", "subnet": "10.97.0.0/24", "dataDir": "/run/closed"}}]}`
	defer os.RemoveAll("/run/closed")
	sandbox.WriteFile(t, nomad+"/60-closed.conflist", closed)
	for _, command := range [][]string{{"networks"}, {"doctor", "--nomad-conf-dir", nomad}, {"conf", "generate", "web", "--alloc-dir", "none"}} {
		o := h.allocnet(command...)
		if output := o.stdout + o.stderr; !strings.Contains(output, `"closed"`) || !strings.Contains(output, "Nomad offers it itself") {
			t.Errorf("%v does not say that Nomad offers the network:\n%s", command, output)
		}
	}

	if err := os.Rename(nomad+"/60-closed.conflist", own+"/60-closed.conflist"); err != nil {
		t.Fatal(err)
	}
	h.conf = own + ":" + nomad
	for _, command := range [][]string{{"networks"}, {"conf", "generate", "web", "--alloc-dir", "none"}} {
		o := h.allocnet(command...)
		if output := o.stdout + o.stderr; o.code != 0 || !strings.Contains(output, "closed") || strings.Contains(output, "Nomad offers it itself") {
			t.Errorf("%v: exit code %d\n%s", command, o.code, output)
		}
	}
	list := read(t, nomad+"/00-multi.conflist")
	if !strings.Contains(list, `"confDir": "`+own+":"+nomad+`"`) {
		t.Errorf("the conflist does not name both directories:\n%s", list)
	}
	r := h.runtimeOf(strings.Replace(list, `"confDir"`, `"stateDir": "`+h.state+`", "confDir"`, 1))
	r.refuseAdd(h.container("d1", "networks=closed"), 7, "closed", "namespace is unknown")
	c := h.container("d2", "networks=closed,storage", "NOMAD_ALLOC_ID=d2", "NOMAD_NAMESPACE=prod")
	r.add(c)
	r.del(c)
	h.conf = nomad
}

// TestConfGenerateAsksNomad: a conflist for a Nomad whose jobs can forge the identity of
// their allocations accepts none. doctor reports one that does.
func TestConfGenerateAsksNomad(t *testing.T) {
	h := newHost(t)
	h.installPlugin()
	file := h.conf + "/00-multi.conflist"
	const meta, arguments, agent = `"allocnet.networks" = "storage,`, `networks = "storage,`, `"jobNetworks": true`
	for version, test := range map[string]struct{ identity, agent, says string }{
		"1.6.2":  {agent: agent, says: meta},
		"1.8.4":  {identity: `"identity": "unknown"`, says: "args = {\n        " + arguments},
		"1.11.3": {says: "args = {\n        " + arguments},
	} {
		nomad := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = fmt.Fprintf(w, `{"config": {"DataDir": "/data", "Version": {"Version": %q}, "Client": {"Enabled": true, "CNIConfigDir": %q}}}`, version, h.conf)
		}))
		t.Setenv("NOMAD_ADDR", nomad.URL)
		o := h.allocnet("conf", "generate", "web")
		list := read(t, file)
		if o.code != 0 || !strings.Contains(list, `"allocDir": "/data/alloc"`) || strings.Contains(list, `"identity"`) != (test.identity != "") || !strings.Contains(list, test.identity) {
			t.Errorf("%s: exit code %d, %s\n%s", version, o.code, o.stderr, list)
		}
		if strings.Contains(list, agent) != (test.agent != "") || !strings.Contains(o.stdout, test.says) {
			t.Errorf("%s: it says %q, want %q\n%s", version, o.stdout, test.says, list)
		}
		h.must("conf", "generate", "web", "--check")
		const problem = "a job can set the namespace"
		if out := h.allocnet("doctor").stdout; strings.Contains(out, problem) {
			t.Errorf("%s: doctor:\n%s", version, out)
		}
		const unread = "a job selects networks by meta"
		if out := h.allocnet("doctor").stdout; strings.Contains(out, unread) {
			t.Errorf("%s: doctor:\n%s", version, out)
		}
		out := h.must("conf", "generate", "web", "--identity", "nomad", "--job-networks=false")
		if strings.Contains(out, "It cannot select other networks") != (test.agent != "") || strings.Contains(read(t, file), agent) {
			t.Errorf("%s: without the agent:\n%s", version, out)
		}
		if out := h.allocnet("doctor").stdout; strings.Contains(out, unread) != (test.agent != "") {
			t.Errorf("%s: doctor of a conflist without the agent:\n%s", version, out)
		}
		if out := h.allocnet("doctor").stdout; strings.Contains(out, problem) != (test.identity != "") {
			t.Errorf("%s: doctor of the identity of Nomad:\n%s", version, out)
		}
		nomad.Close()
	}
	h.refuse(2, []string{"--executor", `"fast"`, "auto or plugins"}, "conf", "generate", "web", "--alloc-dir", "none", "--executor", "fast")
	h.refuse(2, []string{"--identity", `"job"`, "nomad or unknown"}, "conf", "generate", "web", "--identity", "job")
}

func TestConfGenerateRefuses(t *testing.T) {
	h := newHost(t)
	h.installPlugin()
	h.refuse(2, []string{"Multi", "lowercase letters"}, "conf", "generate", "web", "--name", "Multi", "--alloc-dir", "none")
	h.refuse(2, []string{`unknown network "wob"`}, "conf", "generate", "wob", "--alloc-dir", "none")
	h.refuse(2, []string{"--networks", `"nothing"`}, "conf", "generate", "web", "--networks", "nothing", "--alloc-dir", "none")
	h.refuse(2, []string{"got 0 arguments"}, "conf", "generate")
	h.refuse(2, []string{"--alloc-dir", `"alloc"`, "absolute path"}, "conf", "generate", "web", "--alloc-dir", "alloc")
	t.Setenv("NOMAD_ADDR", "http://127.0.0.1:1")
	h.refuse(1, []string{"127.0.0.1:1", "NOMAD_ADDR", "--alloc-dir"}, "conf", "generate", "web")
	h.must("conf", "generate", "web", "--name", "first", "--alloc-dir", "none")
	h.refuse(2, []string{`"first"`, "itself"}, "conf", "generate", "first", "--alloc-dir", "none")
	sandbox.WriteFile(t, h.conf+"/00-first.conflist", "{") // a broken file is replaced
	h.must("conf", "generate", "web", "--name", "first", "--alloc-dir", "none")
	sandbox.WriteFile(t, h.conf+"/99-broken.conf", "{")
	h.refuse(1, []string{"99-broken.conf:1:1", "no network at all"}, "conf", "generate", "web")
	if _, err := os.Stat(h.conf + "/00-multi.conflist"); err == nil {
		t.Error("a file was written")
	}
}

// TestBrokenFileWithRules: while the file of a network with rules is broken, a file of a
// later directory with the same network is not used.
func TestBrokenFileWithRules(t *testing.T) {
	h := newHost(t)
	own, later := t.TempDir(), h.conf
	plugins := `"plugins": [{"type": "bridge", "bridge": "storage0", "ipam": {"type": "host-local", "subnet": "10.97.0.0/24", "dataDir": "/run/closed"}}]}`
	defer os.RemoveAll("/run/closed")
	sandbox.WriteFile(t, later+"/60-closed.conflist", `{"cniVersion": "1.0.0", "name": "closed", `+plugins)
	sandbox.WriteFile(t, own+"/60-closed.conflist", `{"cniVersion": "1.0.0", "name": "closed", "allocnet": {"namespaces": ["prod"]}, `+plugins)
	h.conf = own + ":" + later
	h.refuse(2, []string{"closed", "is denied"}, "attach", "u1", "--primary=", "--networks", "closed")
	sandbox.WriteFile(t, own+"/60-closed.conflist", `{"cniVersion": "1.0.0", "name": "closed", "allocnet": {"namespaces": ["prod"],}, `+plugins)
	h.refuse(2, []string{"60-closed.conflist"}, "attach", "u2", "--primary=", "--networks", "closed")
	h.must("detach", "u2")
	h.conf = later
}
