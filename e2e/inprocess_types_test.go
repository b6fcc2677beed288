// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package e2e

import (
	"context"
	"fmt"
	"io"
	"os"
	"sync"
	"testing"

	"github.com/containernetworking/cni/libcni"
	"github.com/containernetworking/cni/pkg/invoke"
	types100 "github.com/containernetworking/cni/pkg/types/100"

	"github.com/allocnet/allocnet/internal/inprocess"
	"github.com/allocnet/allocnet/internal/inprocess/plugin"
	"github.com/allocnet/allocnet/internal/sandbox"
)

// attacher makes attachments of one network, in process or with the reference plugins.
type attacher struct {
	list *libcni.NetworkConfigList
	// inProcess is whether this process does the plugins' work.
	inProcess bool
}

// call runs one verb, and commits what it leaves to be changed.
func (a attacher) call(verb func(*libcni.CNIConfig) error) error {
	chain := &inprocess.Chain{}
	var exec invoke.Exec = chain
	if !a.inProcess {
		exec = &invoke.DefaultExec{RawExec: &invoke.RawExec{Stderr: io.Discard}}
	}
	if err := verb(libcni.NewCNIConfigWithCacheDir([]string{sandbox.ReferenceDir()}, "/run/results", exec)); err != nil {
		return err
	}
	return plugin.Commit(context.Background(), nil, []*plugin.Changes{chain.Changes()})[0]
}

func (a attacher) add(c *libcni.RuntimeConf) (result *types100.Result, err error) {
	err = a.call(func(cni *libcni.CNIConfig) error {
		r, err := cni.AddNetworkList(context.Background(), a.list, c)
		if err != nil {
			return err
		}
		result, err = types100.NewResultFromResult(r)
		return err
	})
	return result, err
}

// check is that of the plugins, whatever made the attachment.
func (a attacher) check(c *libcni.RuntimeConf) error {
	return attacher{list: a.list}.call(func(cni *libcni.CNIConfig) error { return cni.CheckNetworkList(context.Background(), a.list, c) })
}

func (a attacher) del(c *libcni.RuntimeConf) error {
	return a.call(func(cni *libcni.CNIConfig) error { return cni.DelNetworkList(context.Background(), a.list, c) })
}

// TestLeasesOfBothExecutors: attachments that goroutines of this process and processes of the
// plugins make at the same time, on two networks each, have different addresses, and either
// executor removes those of the other, and the plugins check all.
func TestLeasesOfBothExecutors(t *testing.T) {
	h := newHost(t)
	t.Cleanup(func() { _ = os.RemoveAll("/run/results") })
	const allocations = 12
	var networks [2]*libcni.NetworkConfigList
	for i := range networks {
		networks[i] = parseList(t, fmt.Sprintf(`{"cniVersion": "1.0.0", "name": "both%d", "plugins": [{"type": "ptp",
			"ipam": {"type": "host-local", "dataDir": "/run/both", "ranges": [[{"subnet": "10.%d.0.0/27"}], [{"subnet": "fd00:%d::/64"}]]}}]}`, i, 100+i, 100+i))
	}
	t.Cleanup(func() { _ = os.RemoveAll("/run/both") })
	var containers []*libcni.RuntimeConf
	for i := range allocations {
		containers = append(containers, h.container(fmt.Sprint("both-", i)))
	}
	// each runs a verb for each network of each allocation, all at the same time.
	each := func(verb func(a attacher, c *libcni.RuntimeConf, i int)) {
		var all sync.WaitGroup
		for i, c := range containers {
			for n, list := range networks {
				own := *c
				own.IfName = fmt.Sprint("eth", n)
				all.Go(func() { verb(attacher{list: list}, &own, i) })
			}
		}
		all.Wait()
	}
	var mu sync.Mutex
	owner := map[string]string{}
	each(func(a attacher, c *libcni.RuntimeConf, i int) {
		a.inProcess = i%2 == 0
		result, err := a.add(c)
		if err != nil {
			t.Errorf("ADD of %s: %v", c.ContainerID, err)
			return
		}
		mu.Lock()
		defer mu.Unlock()
		for _, address := range result.IPs {
			if other := owner[address.Address.String()]; other != "" {
				t.Errorf("%s has the address %s of %s", c.ContainerID, address.Address.String(), other)
			}
			owner[address.Address.String()] = c.ContainerID
		}
	})
	if want := allocations * len(networks) * 2; len(owner) != want {
		t.Errorf("%d addresses, want %d", len(owner), want)
	}
	each(func(a attacher, c *libcni.RuntimeConf, i int) {
		if err := a.check(c); err != nil {
			t.Errorf("CHECK of %s: %v", c.ContainerID, err)
		}
		a.inProcess = i%4 < 2
		if err := a.del(c); err != nil {
			t.Errorf("DEL of %s: %v", c.ContainerID, err)
		}
	})
	if left := sandbox.Run(t, "find", "/run/both", "-type", "f", "!", "-name", "lock", "!", "-name", "last_reserved_ip.*"); left != "" {
		t.Errorf("leases are left:\n%s", left)
	}
}

// TestNullRoute: what makes a plugin panic in the namespace fails in process, as its process
// would.
func TestNullRoute(t *testing.T) {
	h := newHost(t)
	t.Cleanup(func() { _ = os.RemoveAll("/run/results") })
	list := parseList(t, `{"cniVersion": "1.0.0", "name": "null", "plugins": [{"type": "macvlan", "master": "uplink",
		"ipam": {"type": "static", "addresses": [{"address": "192.0.2.5/24"}], "routes": [null]}}]}`)
	if err := inprocess.Supports(list, nil); err != nil {
		t.Fatal(err)
	}
	for _, executor := range []attacher{{list: list}, {list: list, inProcess: true}} {
		c := h.container(fmt.Sprint("null-", executor.inProcess))
		if _, err := executor.add(c); err == nil {
			t.Error("ADD succeeded")
		} else {
			t.Logf("%.200s", err.Error())
		}
		if err := executor.del(c); err != nil {
			t.Error(err)
		}
	}
}

func parseList(t *testing.T, text string) *libcni.NetworkConfigList {
	t.Helper()
	list, err := libcni.NetworkConfFromBytes([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return list
}
