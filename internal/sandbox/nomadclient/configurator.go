// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package nomadclient

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	gocni "github.com/containerd/go-cni"
	"github.com/containernetworking/cni/libcni"

	"github.com/allocnet/allocnet/nomad"
)

// attempts of an ADD (v1.6.2 networking_cni.go, Setup).
const attempts = 3

// configurator makes the CNI calls of one allocation, with the conflist as it was when the client
// met the allocation.
type configurator struct {
	version nomad.Version
	pause   func(time.Duration)
	cni     gocni.CNI
	conf    []byte
	loaded  bool
}

func newConfigurator(c Config, g Group) (*configurator, error) {
	// The name becomes lower case (v2.0.5 network_manager_linux.go:186,203).
	name, isCNI := strings.CutPrefix(strings.ToLower(g.Networks[0].Mode), "cni/")
	if !isCNI {
		return nil, fmt.Errorf("mode %q: want cni/NAME", g.Networks[0].Mode)
	}
	conf, err := loadConf(c.ConfDir, name)
	if err != nil {
		return nil, fmt.Errorf("failed to initialize network configurator: failed to load CNI config: %w", err)
	}
	cni, err := gocni.New(gocni.WithPluginDir(c.PluginDirs), gocni.WithInterfacePrefix("eth"))
	if err != nil {
		return nil, err
	}
	return &configurator{version: c.Version, pause: c.Pause, cni: cni, conf: conf}, nil
}

// loadConf returns the network with the name. A broken file that comes before it by name fails all
// allocations (v1.6.2 networking_cni.go, loadCNIConf).
func loadConf(dir, name string) ([]byte, error) {
	files, err := libcni.ConfFiles(dir, []string{".conf", ".conflist", ".json"})
	if err != nil {
		return nil, fmt.Errorf("failed to detect CNI config file: %w", err)
	}
	slices.Sort(files)
	for _, file := range files {
		found, text, err := loadFile(file)
		if err != nil {
			return nil, fmt.Errorf("failed to load CNI config file %s: %w", file, err)
		}
		if found == name {
			return text, nil
		}
	}
	return nil, fmt.Errorf("CNI network config not found for name %q", name)
}

func loadFile(file string) (name string, text []byte, err error) {
	if strings.HasSuffix(file, ".conflist") {
		list, err := libcni.ConfListFromFile(file)
		if err != nil {
			return "", nil, err
		}
		return list.Name, list.Bytes, nil
	}
	conf, err := libcni.ConfFromFile(file) //nolint:staticcheck // Nomad reads such files, with this function
	if err != nil {
		return "", nil, err
	}
	return conf.Network.Name, conf.Bytes, nil
}

// ready loads the conflist for the first call. Before each further one go-cni calls STATUS, of
// networks with version 1.1.0 of the specification: if it fails, no DEL is called (v2.0.5
// networking_cni.go:592,702).
func (n *configurator) ready() error {
	if n.loaded {
		if n.version.Has(CheckOnRestart) {
			return n.cni.Status()
		}
		return nil
	}
	err := n.cni.Load(gocni.WithConfListBytes(n.conf))
	n.loaded = err == nil
	return err
}

// setup calls ADD, three times if it fails, without a DEL between. The error is that of the first
// attempt (v2.0.5 networking_cni.go:214-236).
func (n *configurator) setup(a *Allocation) (*NetworkStatus, error) {
	if err := n.ready(); err != nil {
		return nil, err
	}
	var first error
	for attempt := 1; ; attempt++ {
		// No call has a deadline (v2.0.5 network_hook.go:155,216).
		result, err := n.cni.Setup(context.Background(), a.ID, a.path, n.options(a)...)
		if err == nil {
			return newNetworkStatus(n.version, result)
		}
		if first == nil {
			first = err
		}
		if attempt == attempts {
			return nil, fmt.Errorf("failed to configure network: %w", first)
		}
		n.pause(time.Second + rand.N(time.Second))
	}
}

func (n *configurator) options(a *Allocation) []gocni.NamespaceOpts {
	return []gocni.NamespaceOpts{gocni.WithCapabilityPortMap(a.portMappings()), gocni.WithLabels(a.arguments(n.version))}
}

// check calls CHECK (v1.9.5 network_hook.go:186-209).
func (n *configurator) check(a *Allocation) error {
	if err := n.ready(); err != nil {
		return err
	}
	return n.cni.Check(context.Background(), a.ID, a.path, n.options(a)...)
}

// teardown calls DEL, without arguments (v2.0.5 networking_cni.go:598). If it fails, only the rules
// of the network "nomad" are cleaned up, and up to 1.9.4 the error of the DEL is lost (v1.6.2
// networking_cni.go, Teardown).
func (n *configurator) teardown(a *Allocation) error {
	if err := n.ready(); err != nil {
		return err
	}
	err := n.cni.Remove(context.Background(), a.ID, a.path, gocni.WithCapabilityPortMap(a.portMappings()))
	if err == nil {
		return nil
	}
	forced := forceCleanup(a.ID)
	if n.version.Has(CheckOnRestart) {
		return errors.Join(err, forced)
	}
	return forced
}
