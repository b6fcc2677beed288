// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package sandbox

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// OwnIPAM is the type of allocnet's IPAM plugin.
const OwnIPAM = "allocnet-ipam"

// pluginDir has the CNI plugins and OwnIPAM. /run is the sandbox's.
const pluginDir = "/run/cni-plugins"

// usesOwnIPAM tells whether the networks of WriteConf use OwnIPAM in place of host-local: with
// ALLOCNET_IPAM=allocnet-ipam.
func usesOwnIPAM() bool { return os.Getenv(ipamVariable) == OwnIPAM }

const ipamVariable = "ALLOCNET_IPAM"

// InstallIPAM makes PluginDir a directory that has it beside the other
// plugins. It is a step for Main, which runs it itself if usesOwnIPAM.
func InstallIPAM() error {
	if _, err := os.Stat(pluginDir); err == nil {
		return nil
	}
	plugins, err := filepath.Glob(PluginDir() + "/*")
	if err != nil {
		return err
	}
	errs := []error{os.Mkdir(pluginDir, 0o755)}
	for _, path := range plugins {
		errs = append(errs, os.Symlink(path, filepath.Join(pluginDir, filepath.Base(path))))
	}
	errs = append(errs, Install(pluginDir, OwnIPAM), os.Setenv(pluginsVariable, pluginDir))
	return errors.Join(errs...)
}

// IPAM returns the network of a test, with OwnIPAM in place of host-local if ALLOCNET_IPAM says
// so. Its pool has another name than the network.
func IPAM(t testing.TB, network string) string {
	t.Helper()
	if !usesOwnIPAM() {
		return network
	}
	return withOwnIPAM(t, network, "/run/"+OwnIPAM, "-pool")
}

// withOwnIPAM returns a network with OwnIPAM in place of host-local: each set of ranges becomes
// one of a pool that has the network's name with the suffix, and the store is below stateDir.
func withOwnIPAM(t testing.TB, text, stateDir, suffix string) string {
	t.Helper()
	var network map[string]any
	if err := json.Unmarshal([]byte(text), &network); err != nil {
		t.Fatal(err)
	}
	plugins, isList := network["plugins"].([]any)
	if !isList {
		plugins = []any{network}
	}
	for _, plugin := range plugins {
		conf, _ := plugin.(map[string]any)
		ipam, _ := conf["ipam"].(map[string]any)
		if ipam["type"] == "host-local" {
			conf["ipam"] = ownIPAM(ipam, fmt.Sprint(network["name"])+suffix, stateDir)
		}
	}
	data, err := json.MarshalIndent(network, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// ownIPAM returns the configuration of a pool like one of host-local.
func ownIPAM(local map[string]any, pool, stateDir string) map[string]any {
	var ranges []any
	if subnet, ok := local["subnet"]; ok {
		ranges = append(ranges, map[string]any{"subnet": subnet})
	}
	sets, _ := local["ranges"].([]any)
	for _, set := range sets {
		members, _ := set.([]any)
		ranges = append(ranges, members...)
	}
	own := map[string]any{
		"type": OwnIPAM, "pool": pool, "ranges": ranges, "stateDir": stateDir, "configDir": filepath.Join(stateDir, "none"),
	}
	for _, key := range []string{"routes", "dataDir"} {
		if value, ok := local[key]; ok {
			own[key] = value
		}
	}
	return own
}
