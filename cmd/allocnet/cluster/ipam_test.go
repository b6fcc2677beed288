// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package cluster

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/allocnet/allocnet/cluster/ipam"
	"github.com/allocnet/allocnet/cluster/ipam/pool"
	"github.com/allocnet/allocnet/cmd/allocnet/cli"
)

// pooled returns a host with a network that uses a pool in files of the host, in which an
// attachment has an address.
func pooled(t *testing.T) *ipam.Config {
	t.Helper()
	dir, conf := t.TempDir(), t.TempDir()
	text := fmt.Sprintf(`{"type": "allocnet-ipam", "pool": "vlan100", "ranges": [{"subnet": "10.91.0.0/24", "gateway": "10.91.0.1"}, {"subnet": "fd91::/64"}],
		"reserved": ["10.91.0.16/28"], "blockSize": {"4": 26}, "stateDir": %q, "dataDir": %q, "configDir": %q}`, dir+"/state", dir+"/leases", dir+"/conf")
	if err := os.WriteFile(filepath.Join(conf, "vlan.conf"), []byte(`{"cniVersion": "1.0.0", "name": "vlan", "type": "macvlan", "ipam": `+text+`}`), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("ALLOCNET_CONF_DIR", conf)
	c, err := ipam.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	a, err := access(c)
	if err != nil {
		t.Fatal(err)
	}
	host := a.pool.(*pool.Pool)
	if err := host.SetEndpoint(t.Context(), pooledEndpoint); err != nil {
		t.Fatal(err)
	}
	if _, err := host.Add(t.Context(), ipam.Request{Owner: ipam.Owner{ContainerID: "a1", Interface: "eth0"}}); err != nil {
		t.Fatal(err)
	}
	return c
}

// pooledEndpoint is where the host is reached.
var pooledEndpoint = ipam.Endpoint{Address: netip.MustParseAddr("192.0.2.1"), MAC: "02:00:5e:00:53:01"}

// TestIPAMShow: the pool with its blocks, and the addresses of this host.
func TestIPAMShow(t *testing.T) {
	pooled(t)
	code, out, errs := runs(t, "ipam", "show", "--json")
	var all []poolJSON
	if err := json.Unmarshal([]byte(out), &all); err != nil || code != cli.ExitDone || len(all) != 1 {
		t.Fatalf("exit code %d, %v\n%s%s", code, err, out, errs)
	}
	p := all[0]
	if len(p.Families) != 2 || p.Families[0].Claimed != 1 || p.Families[0].Blocks != 4 || p.Families[0].Used != 1 || p.Families[0].Free == 0 || p.Families[1].Used != 1 {
		t.Errorf("families %+v", p.Families)
	}
	if len(p.Blocks) != 2 || !p.Blocks[0].Owner.ThisHost || p.Blocks[0].State != "held" || *p.Blocks[0].Used != 1 || p.Store != "file" || p.Error != "" {
		t.Errorf("%+v", p)
	}
	for _, b := range p.Blocks {
		if b.Endpoint != pooledEndpoint {
			t.Errorf("%s is reached at %+v, want %+v", b.Block, b.Endpoint, pooledEndpoint)
		}
	}
	code, out, _ = runs(t, "ipam", "show", "vlan100")
	for _, word := range []string{
		"pool vlan100, store file, mode flat, blocks /26 and /122", "range 10.91.0.0/24: 10.91.0.1 to 10.91.0.254, gateway 10.91.0.1", "reserved 10.91.0.16/28",
		"IPv4    1               4                1          0        ", "10.91.0.", "(this host)  held   1     0        ",
	} {
		if code != cli.ExitDone || !strings.Contains(out, word) {
			t.Errorf("exit code %d, no %q in\n%s", code, word, out)
		}
	}
	if code, out, _ := runs(t, "ipam", "show", "-q"); code != cli.ExitDone || out != "vlan100\n" {
		t.Errorf("exit code %d, %q", code, out)
	}
}

// TestIPAMShowMode: a pool that spans hosts is shown with how.
func TestIPAMShowMode(t *testing.T) {
	c := pooled(t)
	c.Mode, c.VXLAN = ipam.ModeAuto, ipam.VXLAN{ID: 7, Port: 4789}
	a, err := access(c)
	if err != nil {
		t.Fatal(err)
	}
	p, err := a.show(t.Context())
	if want := "pool vlan100, store file, mode auto, blocks /26 and /122\n  VXLAN 7, UDP port 4789\n"; err != nil || !strings.HasPrefix(strings.Join(p.summary(), "\n"), want) {
		t.Errorf("%v, %q, want %q", err, p.summary(), want)
	}
}

// TestIPAMReserve: an address is kept for a job until it is not.
func TestIPAMReserve(t *testing.T) {
	pooled(t)
	code, out, errs := runs(t, "ipam", "reserve", "vlan100", "10.91.0.20", "--job", "db", "--group", "pg", "--key", "0")
	if code != cli.ExitDone || out != "10.91.0.20 of pool vlan100 is kept for job db\n" {
		t.Fatalf("exit code %d: %s%s", code, out, errs)
	}
	_, out, _ = runs(t, "ipam", "show")
	if !strings.Contains(out, "10.91.0.20") || !strings.Contains(out, "default/db") || !strings.Contains(out, "pg") {
		t.Errorf("not shown:\n%s", out)
	}
	if code, _, errs = runs(t, "ipam", "unreserve", "vlan100", "10.91.0.20"); code != cli.ExitDone {
		t.Errorf("exit code %d: %s", code, errs)
	}
	var kept reservationJSON
	code, out, errs = runs(t, "ipam", "reserve", "vlan100", "10.91.0.21", "--job", "db", "--json")
	if err := json.Unmarshal([]byte(out), &kept); code != cli.ExitDone || err != nil || kept.Pool != "vlan100" || kept.Job == nil || kept.Job.Job != "db" {
		t.Errorf("--json: exit code %d, %v: %s%s", code, err, out, errs)
	}
	code, out, errs = runs(t, "ipam", "unreserve", "vlan100", "10.91.0.21", "--json")
	if err := json.Unmarshal([]byte(out), &kept); code != cli.ExitDone || err != nil || strings.Contains(out, "job") {
		t.Errorf("unreserve --json: exit code %d, %v: %s%s", code, err, out, errs)
	}
	if _, out, _ = runs(t, "ipam", "show"); strings.Contains(out, "default/db") {
		t.Errorf("still kept:\n%s", out)
	}
}

// TestIPAMRefuses: mistakes of the command line are refused, with what would be right.
func TestIPAMRefuses(t *testing.T) {
	pooled(t)
	for args, want := range map[string]string{
		"ipam shw":                                     "did you mean show?",
		"ipam show a b":                                "got 2 arguments: want one pool, or none for all",
		"ipam show other":                              `uses a pool "other" of allocnet-ipam; there are vlan100`,
		"ipam release":                                 "--node is required",
		"ipam release --node n1 --json":                "--json: want --yes, too",
		"ipam reserve vlan100":                         "want a pool and an address",
		"ipam reserve vlan100 10.91.0.20":              "--job is required",
		"ipam reserve vlan100 10.91.0.99 --job db":     "10.91.0.99 is no reserved address of pool vlan100: want one of 10.91.0.16/28",
		"ipam reserve vlan100 db --job db":             `address "db": want one such as 10.91.0.20`,
		"ipam unreserve other 10.91.0.20":              `a pool "other"`,
		"ipam show --conf-dir " + emptyDir(t):          "uses allocnet-ipam",
		"ipam release --node n --conf-dir /none/there": "/none/there",
	} {
		if code, _, errs := runs(t, strings.Fields(args)...); code != cli.ExitRefused || !strings.Contains(errs, want) {
			t.Errorf("%s: exit code %d, %s, want %s", args, code, errs, want)
		}
	}
	for args, want := range map[string]string{"ipam show ": "vlan100", "ipam reserve v": "vlan100", "ipam check vlan100 ": ""} {
		_, out, _ := runs(t, append([]string{"__complete"}, strings.Split(args, " ")...)...)
		if values := strings.Fields(out); strings.Join(values[:len(values)-1], " ") != want {
			t.Errorf("%q completes %q, want %q", args, values, want)
		}
	}
}

func emptyDir(t *testing.T) string {
	t.Helper()
	return t.TempDir()
}

// TestIPAMWithoutStore: what this host has is shown, and the exit code tells.
func TestIPAMWithoutStore(t *testing.T) {
	c := pooled(t)
	if err := os.MkdirAll(c.ConfigDir, 0o700); err != nil {
		t.Fatal(err)
	}
	text := "nomad {\n address = \"http://127.0.0.1:1\"\n}\nipam {\n store = \"nomad\"\n}\n"
	if err := os.WriteFile(filepath.Join(c.ConfigDir, "a.hcl"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	code, out, errs := runs(t, "ipam", "show")
	if code != cli.ExitFailed || !strings.Contains(out, "the blocks of other hosts are not known") || !strings.Contains(out, "held") {
		t.Errorf("exit code %d\n%s%s", code, out, errs)
	}
	if err := os.WriteFile(filepath.Join(c.ConfigDir, "a.hcl"), []byte("ipam {\n store = \"etcd\"\n}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, _, errs := runs(t, "ipam", "show", "vlan100"); code != cli.ExitRefused || !strings.Contains(errs, `a.hcl:2,10-16`) {
		t.Errorf("exit code %d: %s", code, errs)
	}
	if code, out, _ := runs(t, "ipam", "show"); code != cli.ExitFailed || !strings.Contains(out, "pool vlan100 cannot be used: ") || !strings.Contains(out, `a.hcl:2,10-16`) {
		t.Errorf("exit code %d: %s", code, out)
	}
}

// ownedPool is a pool with blocks of several nodes.
type ownedPool struct {
	sharedPool
	overview pool.Overview
	released []string
}

func (p *ownedPool) Show(context.Context) (pool.Overview, error) { return p.overview, nil }

func (p *ownedPool) ReleaseNode(_ context.Context, id string) ([]ipam.Block, []netip.Addr, error) {
	p.released = append(p.released, id)
	return []ipam.Block{netip.MustParsePrefix("10.91.0.0/26")}, nil, nil
}

// TestIPAMRelease: nothing is released of a node that may be alive, without --force, or
// without a yes.
func TestIPAMRelease(t *testing.T) {
	block := func(id, name, prefix string) ipam.BlockContent {
		return ipam.BlockContent{Block: netip.MustParsePrefix(prefix), Host: ipam.Host{NodeID: id, NodeName: name}}
	}
	gone := func(g bool, err error) func(context.Context, string) (bool, error) {
		return func(context.Context, string) (bool, error) { return g, err }
	}
	for name, test := range map[string]struct {
		release release
		gone    func(context.Context, string) (bool, error)
		answer  string
		want    string
		err     string
	}{
		"gone, and yes":      {release{node: "n1"}, gone(true, nil), "y\n", "n1", ""},
		"gone, by its name":  {release{node: "one"}, gone(true, nil), "yes\n", "n1", ""},
		"gone, and no":       {release{node: "n1"}, gone(true, nil), "\n", "", "nothing is released"},
		"gone, no answer":    {release{node: "n1"}, gone(true, nil), "", "", "nothing is released"},
		"gone, --yes":        {release{node: "n1", yes: true}, gone(true, nil), "", "n1", ""},
		"gone, --json":       {release{node: "n1", yes: true, json: true}, gone(true, nil), "", "n1", ""},
		"alive":              {release{node: "n1", yes: true}, gone(false, nil), "", "", "nomad knows node n1"},
		"alive, --force":     {release{node: "n1", yes: true, force: true}, gone(false, nil), "", "n1", ""},
		"unknown":            {release{node: "n1", yes: true}, gone(false, errors.New("500")), "", "", "it is not known whether node n1 is gone"},
		"two nodes":          {release{node: "two", yes: true}, gone(true, nil), "", "", `"two": is the name of the nodes n2, n3: want an ID`},
		"this host":          {release{node: "five", yes: true, force: true}, gone(true, nil), "", "", "node n5 is this host, so nothing is released"},
		"no node of Nomad":   {release{node: "four", yes: true}, gone(true, nil), "", "", ""},
		"a node without any": {release{node: "n9", yes: true}, gone(true, nil), "", "", ""},
	} {
		p := &ownedPool{overview: pool.Overview{Blocks: []ipam.BlockContent{block("n1", "one", "10.91.0.0/26"), block("n2", "two", "10.91.0.64/26"), block("n3", "two", "10.91.0.128/26"), block("", "four", "10.91.0.192/26"), block("n5", "five", "10.91.1.0/26")}}}
		cmd := &cobra.Command{}
		var out bytes.Buffer
		cmd.SetContext(t.Context())
		cmd.SetOut(&out)
		cmd.SetIn(strings.NewReader(test.answer))
		open := func() (ipam.Store, ipam.Host, error) { return nil, ipam.Host{NodeID: "n5"}, nil }
		err := test.release.release(cmd, []poolAccess{{config: &ipam.Config{Pool: "vlan100"}, pool: p, gone: test.gone, open: open}})
		if strings.Join(p.released, " ") != test.want || (err == nil) != (test.err == "") || err != nil && (!strings.Contains(err.Error(), test.err) || cli.ExitCode(err) != cli.ExitRefused) {
			t.Errorf("%s: released %q, %v, want %q\n%s", name, p.released, err, test.want, &out)
		}
		says := "node n1 has of pool vlan100: 10.91.0.0/26\n"
		if test.release.json {
			says = "[\n  {\n    \"pool\": \"vlan100\",\n    \"blocks\": ["
		}
		if test.want != "" && !strings.Contains(out.String(), says) {
			t.Errorf("%s: does not say what it releases:\n%s", name, &out)
		}
	}
}

// TestIPAMReleaseOfTwoStores: the Nomad of each pool says whether the node is gone.
func TestIPAMReleaseOfTwoStores(t *testing.T) {
	var opened []poolAccess
	var all []*ownedPool
	for i := range 2 {
		p := &ownedPool{overview: pool.Overview{Blocks: []ipam.BlockContent{{Block: netip.MustParsePrefix("10.91.0.0/26"), Host: ipam.Host{NodeID: "n1"}}}}}
		all = append(all, p)
		opened = append(opened, poolAccess{
			config: &ipam.Config{Pool: fmt.Sprint("p", i)}, pool: p,
			gone: func(context.Context, string) (bool, error) { return i == 0, nil },
			open: func() (ipam.Store, ipam.Host, error) { return nil, ipam.Host{NodeID: "n5"}, nil },
		})
	}
	cmd := &cobra.Command{}
	cmd.SetContext(t.Context())
	cmd.SetOut(&bytes.Buffer{})
	r := release{node: "n1", yes: true}
	if err := r.release(cmd, opened); err == nil || len(all[0].released)+len(all[1].released) > 0 {
		t.Errorf("released %v, %v of a node that one Nomad knows: %v", all[0].released, all[1].released, err)
	}
}

// TestIPAMOnlyInvalidPool: it is shown as one among others is.
func TestIPAMOnlyInvalidPool(t *testing.T) {
	t.Setenv("ALLOCNET_CONF_DIR", t.TempDir())
	text := `{"cniVersion": "1.0.0", "name": "n", "type": "macvlan", "ipam": {"type": "allocnet-ipam", "pool": "BAD", "ranges": [{"subnet": "10.92.0.0/24"}]}}`
	if err := os.WriteFile(filepath.Join(os.Getenv("ALLOCNET_CONF_DIR"), "n.conf"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, out, errs := runs(t, "ipam", "show"); code != cli.ExitFailed || !strings.Contains(out, "pool BAD cannot be used: ") {
		t.Errorf("exit code %d\n%s%s", code, out, errs)
	}
}

// TestIPAMInvalidPool: an invalid pool is reported, and hides no other.
func TestIPAMInvalidPool(t *testing.T) {
	pooled(t)
	text := `{"cniVersion": "1.0.0", "name": "n", "type": "macvlan", "ipam": {"type": "allocnet-ipam", "pool": "BAD", "ranges": [{"subnet": "10.92.0.0/24"}]}}`
	if err := os.WriteFile(filepath.Join(os.Getenv("ALLOCNET_CONF_DIR"), "n.conf"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	code, out, errs := runs(t, "ipam", "show")
	if code != cli.ExitFailed || !strings.Contains(out, "(this host)  held") || !strings.Contains(out, "pool BAD cannot be used: ") {
		t.Errorf("show: exit code %d\n%s%s", code, out, errs)
	}
	if code, _, errs := runs(t, "ipam", "show", "BAD"); code != cli.ExitRefused || !strings.Contains(errs, `"BAD"`) {
		t.Errorf("show BAD: exit code %d: %s", code, errs)
	}
	if code, _, errs := runs(t, "ipam", "release", "--node", "n1"); code != cli.ExitRefused || !strings.Contains(errs, "nothing is released; name a pool") {
		t.Errorf("release: exit code %d: %s", code, errs)
	}
	code, out, errs = runs(t, "ipam", "check")
	switch {
	case cli.RequireRoot() != nil:
		if code != cli.ExitRefused || !strings.Contains(errs, "reads the namespaces of the host") || strings.Contains(errs, "changes") {
			t.Errorf("check without root: exit code %d: %s", code, errs)
		}
	case code != cli.ExitFailed || !strings.Contains(out, "ERROR   pool BAD: ") || !strings.Contains(out, "fix: correct the key ipam of the network"):
		t.Errorf("check: exit code %d\n%s%s", code, out, errs)
	}
}
