// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Package ipam runs allocnet-ipam as runtimes and as allocnet do, with the real plugins that
// delegate to it, on one host whose store is in files.
package ipam

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/containernetworking/cni/pkg/types"
	"github.com/containernetworking/cni/pkg/types/create"

	current "github.com/containernetworking/cni/pkg/types/100"

	"github.com/allocnet/allocnet/internal/netns"
	"github.com/allocnet/allocnet/internal/sandbox"
)

func TestMain(m *testing.M) {
	os.Exit(sandbox.MainDivided(m.Run, sandbox.InstallIPAM, func() error { return sandbox.Install(filepath.Dir(allocnet), "allocnet") }))
}

// allocnet is the command line. /run is the sandbox's.
const allocnet = "/run/allocnet"

// pool is a pool of one host.
type pool struct {
	*testing.T
	// state and data are its directories.
	state, data string
	// ipam is the object of a plugin's configuration.
	ipam map[string]any
}

// newPool returns a pool with more keys. When the test ends no lease is left.
func newPool(t *testing.T, keys map[string]any) *pool {
	t.Helper()
	p := &pool{T: t, state: t.TempDir(), data: t.TempDir()}
	p.ipam = map[string]any{"type": sandbox.OwnIPAM, "pool": "p", "stateDir": p.state, "dataDir": p.data, "configDir": p.state + "/none"}
	for key, value := range keys {
		p.ipam[key] = value
	}
	t.Cleanup(func() {
		if left := p.leases(); len(left) > 0 {
			t.Errorf("leases are left: %v", left)
		}
	})
	return p
}

// leases returns the owners by address.
func (p *pool) leases() map[string]string {
	p.Helper()
	entries, err := os.ReadDir(filepath.Join(p.data, "p"))
	if err != nil && !os.IsNotExist(err) {
		p.Fatal(err)
	}
	leases := map[string]string{}
	for _, entry := range entries {
		if _, err := netip.ParseAddr(entry.Name()); err != nil {
			continue
		}
		data, err := os.ReadFile(filepath.Join(p.data, "p", entry.Name()))
		if err != nil {
			p.Fatal(err)
		}
		leases[entry.Name()] = string(data)
	}
	return leases
}

// network returns a network of one plugin that delegates to the pool.
func (p *pool) network(cniVersion, name string, plugin map[string]any) string {
	p.Helper()
	conf := map[string]any{"ipam": p.ipam}
	for key, value := range plugin {
		conf[key] = value
	}
	data, err := json.Marshal(map[string]any{"cniVersion": cniVersion, "name": name, "plugins": []any{conf}})
	if err != nil {
		p.Fatal(err)
	}
	return string(data)
}

// bridge is a plugin that delegates to the pool.
var bridge = map[string]any{"type": "bridge", "bridge": "ipam0"}

// call is one execution of the program.
type call struct {
	verb, id string
	// keys are further ones of the plugin's configuration, and args is CNI_ARGS.
	keys map[string]any
	args string
	// version is that of the configuration. Empty: 1.1.0.
	version string
}

// command returns the program with a call.
func (p *pool) command(c call) *exec.Cmd {
	if c.version == "" {
		c.version = "1.1.0"
	}
	conf := map[string]any{"cniVersion": c.version, "name": "direct", "type": "macvlan", "ipam": p.ipam}
	for key, value := range c.keys {
		conf[key] = value
	}
	data, err := json.Marshal(conf)
	if err != nil {
		panic(err) // maps of strings
	}
	cmd := exec.Command(filepath.Join(sandbox.PluginDir(), sandbox.OwnIPAM))
	cmd.Stdin = bytes.NewReader(data)
	cmd.Env = append(os.Environ(), "CNI_COMMAND="+c.verb, "CNI_CONTAINERID="+c.id, "CNI_IFNAME=eth0", "CNI_NETNS=/run/netns/"+c.id, "CNI_ARGS="+c.args, "CNI_PATH=/none")
	return cmd
}

// run executes the program. The error is a *types.Error.
func (p *pool) run(c call) (string, error) {
	cmd := p.command(c)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	if err == nil {
		return stdout.String(), nil
	}
	failed := &types.Error{}
	if json.Unmarshal(stdout.Bytes(), failed) != nil || failed.Code == 0 {
		return "", fmt.Errorf("%w: %s%s", err, stdout.Bytes(), stderr.Bytes())
	}
	return "", failed
}

// add returns the addresses of a container.
func (p *pool) add(c call) ([]string, error) {
	c.verb = "ADD"
	out, err := p.run(c)
	if err != nil {
		return nil, err
	}
	return addressesIn(out)
}

// addressesIn returns the addresses of a printed result of any version.
func addressesIn(printed string) ([]string, error) {
	result, err := create.CreateFromBytes([]byte(printed))
	if err != nil {
		return nil, fmt.Errorf("%w: %s", err, printed)
	}
	converted, err := current.NewResultFromResult(result)
	if err != nil {
		return nil, err
	}
	var all []string
	for _, ip := range converted.IPs {
		all = append(all, ip.Address.String())
	}
	return all, nil
}

func (p *pool) mustAdd(c call) []string {
	p.Helper()
	addresses, err := p.add(c)
	if err != nil {
		p.Fatalf("ADD of %s: %v", c.id, err)
	}
	return addresses
}

func (p *pool) mustRun(c call) {
	p.Helper()
	if _, err := p.run(c); err != nil {
		p.Fatalf("%s of %s: %v", c.verb, c.id, err)
	}
}

// requireCode requires an error with a code of the specification and words.
func requireCode(t *testing.T, err error, code uint, words ...string) {
	t.Helper()
	var failed *types.Error
	if !errors.As(err, &failed) || failed.Code != code {
		t.Fatalf("%v, want an error with code %d", err, code)
	}
	for _, word := range words {
		if !strings.Contains(failed.Msg, word) {
			t.Errorf("%q does not say %q", failed.Msg, word)
		}
	}
}

// namespace makes a network namespace for a test.
func namespace(t *testing.T, name string) string {
	t.Helper()
	path, err := netns.Create(netns.DefaultDir, name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := netns.Remove(path); err != nil {
			t.Error(err)
		}
	})
	return path
}

// bare returns an address without the length of its prefix.
func bare(address string) string { return netip.MustParsePrefix(address).Addr().String() }

// age makes a lease two minutes old.
func (p *pool) age(address string) {
	p.Helper()
	old := time.Now().Add(-2 * time.Minute)
	if err := os.Chtimes(filepath.Join(p.data, "p", bare(address)), old, old); err != nil {
		p.Fatal(err)
	}
}

// setInstance makes the host one that chooses the same blocks as any other with the ID.
func (p *pool) setInstance(id string) {
	p.Helper()
	if err := os.MkdirAll(p.state+"/ipam", 0o700); err != nil {
		p.Fatal(err)
	}
	sandbox.WriteFile(p, p.state+"/ipam/instance", id+"\n")
}
