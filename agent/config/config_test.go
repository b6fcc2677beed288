// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package config

import (
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/allocnet/allocnet/agent"
	"github.com/allocnet/allocnet/allocation"
	"github.com/allocnet/allocnet/hook"
	"github.com/allocnet/allocnet/internal/errdefs"
	"github.com/allocnet/allocnet/portmap"
	"github.com/allocnet/allocnet/selection"

	"github.com/allocnet/allocnet/internal/hclfile"
)

func dirWith(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestLoad(t *testing.T) {
	dir := dirWith(t, map[string]string{
		"10-host.hcl": `
conf_dir     = "/etc/allocnet/networks:/opt/cni/config"
plugin_dirs  = ["/opt/cni/bin", "/usr/libexec/cni"]
call_timeout = "90s"
log_level    = "debug"
socket {
  path  = "/run/a/b.sock"
  owner = "0"
  group = "4242"
}
limits {
  connections   = 10
  drain_timeout = "2m"
}`,
		"20-nomad.hcl": `
nomad {
  token_file = "/etc/allocnet.d/token"
  events     = true
}
reconcile {
  interval = "30s"
  leaks    = "report"
}
repair {
  mode = "report"
}
ipam {
  store     = "nomad"
  namespace = "allocnet-ipam"
  reclaim   = "manual"
  grace     = "2h"
  fence     = "12h"
}
cluster {
  address       = "10.0.0.5"
  node_networks = ["10.0.0.0/24", "fd00::/64"]
  filtering     = "accept"
}
multi {
  primary  = "web"
  networks = "storage"
  path     = "/opt/cni/config/00-multi.conflist"
}`,
		"30-ignored.txt": `{`, "units/web.hcl": `{`,
	})
	got, err := Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	want := Config{
		ConfDirs: []string{"/etc/allocnet/networks", "/opt/cni/config"}, PluginDirs: []string{"/opt/cni/bin", "/usr/libexec/cni"}, CallTimeout: 90 * time.Second, LogLevel: "debug",
		Socket: Socket{"/run/a/b.sock", agent.Access{Group: 4242}}, Limits: Limits{Connections: 10, DrainTimeout: 2 * time.Minute},
		Nomad: &Nomad{TokenFile: "/etc/allocnet.d/token", Events: true}, Reconcile: Reconcile{30 * time.Second, "report"}, Repair: Repair{"report"},
		IPAM:    &IPAM{Store: "nomad", Namespace: "allocnet-ipam", Reclaim: "manual", Grace: 2 * time.Hour, Fence: 12 * time.Hour},
		Cluster: Cluster{netip.MustParseAddr("10.0.0.5"), []netip.Prefix{netip.MustParsePrefix("10.0.0.0/24"), netip.MustParsePrefix("fd00::/64")}, Accept},
		Multi:   &Multi{Primary: "web", Networks: "storage", Path: "/opt/cni/config/00-multi.conflist", Name: "multi"},
	}
	comparable := cmp.Comparer(func(a, b netip.Addr) bool { return a == b })
	if diff := cmp.Diff(want, got, comparable, cmp.Comparer(func(a, b netip.Prefix) bool { return a == b })); diff != "" {
		t.Error(diff)
	}
	next := got
	next.LogLevel, next.Reconcile.Interval, next.Repair.Mode, next.ConfDirs, next.Nomad, next.IPAM, next.Cluster = "warn", time.Second, "rules", []string{"/x"}, &Nomad{}, nil, Cluster{}
	if diff := cmp.Diff([]string{"conf_dir", "nomad"}, got.NeedRestart(next)); diff != "" {
		t.Error(diff)
	}
}

// TestJobNetworksRequireTheAgent: only the agent asks Nomad for the networks of a
// job.
func TestJobNetworksRequireTheAgent(t *testing.T) {
	for text, want := range map[string]string{
		"multi {\n primary = \"web\"\n}":                                                         "",
		"multi {\n primary = \"web\"\n agent = \"prefer\"\n}":                                    "prefer",
		"nomad {\n job_networks = true\n}\nmulti {\n primary = \"web\"\n}":                       "require",
		"nomad {\n job_networks = true\n}\nmulti {\n primary = \"web\"\n agent = \"require\"\n}": "require",
	} {
		got, err := Load(dirWith(t, map[string]string{"a.hcl": text}))
		if err != nil || got.Multi.Agent != want {
			t.Errorf("%s: %+v, %v, want %q", text, got.Multi, err, want)
		}
	}
	text := "nomad {\n job_networks = true\n}\nmulti {\n primary = \"web\"\n agent = \"prefer\"\n}"
	if _, err := Load(dirWith(t, map[string]string{"a.hcl": text})); err == nil || !strings.Contains(err.Error(), `a.hcl:4`) || !strings.Contains(err.Error(), `want "require"`) {
		t.Errorf("without the agent networks would be missing: %v", err)
	}
}

func TestHook(t *testing.T) {
	for _, name := range []string{"cni", "noop"} {
		got, err := Load(dirWith(t, map[string]string{"a.hcl": "hook = \"" + name + "\"\nsocket {\n group = \"0\"\n}"}))
		if err != nil || got.Hook != name {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
		if diff := cmp.Diff([]string{"hook"}, got.NeedRestart(Config{})); diff != "" {
			t.Error(diff)
		}
	}
}

func TestLoadNothing(t *testing.T) {
	for _, path := range []string{t.TempDir(), "/does/not/exist"} {
		if got, err := LoadDefault(path); err != nil || !reflect.DeepEqual(got, Config{}) {
			t.Errorf("%s: %+v, %v", path, got, err)
		}
	}
	if got, err := Load(t.TempDir()); err != nil || !reflect.DeepEqual(got, Config{}) {
		t.Errorf("an empty directory: %+v, %v", got, err)
	}
	for _, path := range []string{"/does/not/exist", "/does/not/exist.hcl"} {
		_, err := Load(path)
		if !errors.Is(err, os.ErrNotExist) || errdefs.Of(err) != errdefs.Refused || !strings.Contains(err.Error(), path) {
			t.Errorf("a path that is named and missing: %v", err)
		}
	}
}

func TestFaultsSayWhere(t *testing.T) {
	for text, want := range map[string]string{
		"conf_dir = ":                                         "a.hcl:1,12-12",
		"x = 1":                                               "a.hcl:1,1-2: Unsupported argument",
		"\n  call_timeout = \"soon\"":                         `a.hcl:2,18-24: Invalid value; "soon": want a duration`,
		"call_timeout = 5":                                    `a.hcl:1,16-17`,
		"call_timeout = \"-1s\"":                              "more than 0",
		"log_level = \"loud\"":                                `"loud": want trace, debug`,
		"executor = \"fast\"":                                 `"fast": want auto, plugins`,
		"socket {\n owner = \"no-such\"\n}":                   `a.hcl:2,10-19: Invalid value; "no-such": want the name or number of a user`,
		"limits {\n requests = 0\n}":                          "a.hcl:2,13-14: Invalid value; 0: want a number of 1 or more",
		"socket {}\nsocket {}":                                "a.hcl:2,1-7: Duplicate socket block",
		"multi {\n path = \"/x\"\n}":                          "a.hcl:1,1-6: Invalid value; multi: want either primary",
		"multi {\n primary = \"web\"\n agent = \"never\"\n}":  "want prefer, require",
		"multi {\n primary = \"web\"\n identity = \"job\"\n}": "want nomad, unknown",
		"pprof = \"maybe\"":                                   "a.hcl:1,10-15",
		"log_level = upper(\"x\")":                            "a.hcl:1,13",
		"reconcile {\n leaks = \"ignore\"\n}":                 `want report, remove`,
		"metrics {\n listen = \"9464\"\n}":                    `a.hcl:2,11-17: Invalid value; listen "9464": want an address with a port, as in "127.0.0.1:9464"`,
		"metrics {\n listen = \"localhost:http\"\n}":          `listen "localhost:http": want an address with a port`,
		"metrics {}":                                          `a.hcl:1,1-8: Invalid value; listen "": want an address with a port`,
		"ipam {\n store = \"consul\"\n}":                      `a.hcl:2,10-18: Invalid value; "consul": want nomad, file`,
		"ipam {\n namespace = \"a b\"\n}":                     `a.hcl:2,14-19: Invalid value; "a b": want letters, digits, - and _`,
		"ipam {\n reclaim = \"never\"\n}":                     `a.hcl:2,12-19: Invalid value; "never": want auto, manual`,
		"ipam {\n grace = \"0s\"\n}":                          `a.hcl:2,10-14: Invalid value; "0s": want a duration of more than 0`,
		"ipam {\n fence = \"25h\"\n}":                         `a.hcl:2,10-15: Invalid value; "25h0m0s": want less than 25h0m0s, which is 24h and grace`,
		"repair {\n mode = \"all\"\n}":                        `want report, rules, reattach`,
		"cluster {\n address = \"here\"\n}":                   `a.hcl:2,12-18: Invalid value; "here": want the address of this host that other hosts reach`,
		"cluster {\n address = \"127.0.0.1\"\n}":              `a.hcl:2,12-23: Invalid value; "127.0.0.1": want the address of this host that other hosts reach, as in "10.0.0.5"`,
		"cluster {\n address = \"fe80::1%eth0\"\n}":           `a.hcl:2,12-26: Invalid value; "fe80::1%eth0": want the address`,
		"cluster {\n node_networks = [\"10.0.0.1/24\"]\n}":    `a.hcl:2,18-33: Invalid value; "10.0.0.1/24": want "10.0.0.0/24"`,
		"cluster {\n node_networks = [\"10.0.0.0\"]\n}":       `a.hcl:2,18-30: Invalid value; "10.0.0.0": want a prefix, as in "10.0.0.0/24"`,
		"cluster {\n filtering = \"drop\"\n}":                 `a.hcl:2,14-20: Invalid value; "drop": want report, accept`,
		"cluster {\n node_networks = 5\n}":                    `a.hcl:2,18-19: Unsuitable value`,
		"ipam {\n addresses = 1\n}":                           `a.hcl:2,2-11: Unsupported argument`,
		"ipam {\n store = \"file\"\n region = \"eu\"\n}":      `a.hcl:3,11-15: Invalid value; "eu": with store = "file" there is none`,
		"hook = \"none\"":                                     `a.hcl:1,8-14: Invalid value; "none": want cni, noop`,
		"hook = \"noop\"\nnomad {}\nipam {}\ncluster {}\nmulti {\n primary = \"web\"\n}\ncni {}\nreconcile {}\nrepair {}": `a.hcl:1,8-14: Invalid value; "noop": want "cni" for the blocks reconcile, repair, nomad, ipam, cluster, multi, cni`,
	} {
		_, err := Load(dirWith(t, map[string]string{"a.hcl": text}))
		var faults *hclfile.Error
		if !errors.As(err, &faults) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
	_, err := Load(dirWith(t, map[string]string{"a.hcl": "pprof = true", "b.hcl": "\npprof = false"}))
	if err == nil || !strings.Contains(err.Error(), "b.hcl:2,1-6") {
		t.Errorf("set in two files: %v", err)
	}
}

func TestLoadUnit(t *testing.T) {
	dir := dirWith(t, map[string]string{
		"units/web.hcl": `
primary  = "web"
networks = [{ name = "storage", ips = ["10.89.0.9/16"], mtu = 1400 }, { name = "mgmt", interface = "net5" }]
publish  = ["http=8080:80/tcp"]
dns      = "merge"
ingress  = "5432/tcp, 10.0.0.0/8 icmp"
egress   = "none"`,
		"units/short.hcl": `networks = "storage,mgmt@net5"`,
	})
	got, err := LoadUnit(dir+"/units/web.hcl", "web")
	want := hook.Request{
		ID: "web", Operator: true, Primary: &selection.Element{Name: "web"},
		Networks: []selection.Element{{Name: "storage", IPs: []string{"10.89.0.9/16"}, MTU: 1400}, {Name: "mgmt", Interface: "net5"}},
		Ports:    []portmap.Port{{Label: "http", HostPort: 8080, To: 80, Protocol: "tcp"}},
		DNS:      "merge", Narrowing: allocation.Narrowing{Ingress: "5432/tcp, 10.0.0.0/8 icmp", Egress: "none"},
	}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v\n%s", err, diff)
	}
	if short, err := LoadUnit(dir+"/units/short.hcl", "short"); err != nil || len(short.Networks) != 2 || short.Networks[1].Interface != "net5" {
		t.Errorf("%+v, %v", short, err)
	}
}

func TestUnitFaults(t *testing.T) {
	for text, want := range map[string]string{
		`networks = "a,,b"`:                    "web.hcl:1,12-18: Invalid value; networks: networks[1]",
		`networks = [{ name = "a", mtu = 1 }]`: "networks[0].mtu",
		`networks = [{ name = "a", x = 1 }]`:   "unknown key",
		`primary = "a,b"`:                      "web.hcl:1,11-16: Invalid value; primary: want one network",
		`publish = ["80:x"]`:                   "web.hcl:1,11-19: Invalid value; publish",
		`publish = 80`:                         "web.hcl:1,11",
		`ports = []`:                           "Unsupported argument",
		`ingress = "dns"`:                      `web.hcl:1,11-16: Invalid value; ingress: "dns": want a prefix`,
		`egress = ""`:                          `web.hcl:1,10-12: Invalid value; egress: "": want parts`,
		`egress = ["53/udp"]`:                  "web.hcl:1,10",
	} {
		_, err := LoadUnit(dirWith(t, map[string]string{"web.hcl": text})+"/web.hcl", "web")
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
	if _, err := LoadUnit("/none/web.hcl", "web"); err == nil || !strings.Contains(err.Error(), "/none/web.hcl") {
		t.Errorf("no file: %v", err)
	}
	if _, err := LoadUnit("/none/web.hcl", "../web"); err == nil || !strings.Contains(err.Error(), "../web") {
		t.Errorf("no ID: %v", err)
	}
}
