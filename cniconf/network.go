// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package cniconf

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/containernetworking/cni/libcni"
	"github.com/containernetworking/cni/pkg/utils"
	"github.com/containernetworking/cni/pkg/version"

	"github.com/allocnet/allocnet/internal/strictjson"
)

// Network is one named network. It is immutable, and safe for concurrent use.
type Network struct {
	Name string
	// Path is the file that has its configuration.
	Path string
	// List is the configuration, with the plugins of the network's
	// subdirectory.
	List *libcni.NetworkConfigList
	// Options is the conflist's top-level key "allocnet"; without one it has no Data.
	Options strictjson.Text
	// Plugins are those of List, as they are written.
	Plugins []strictjson.Text

	// text is the file, and single is whether it has the configuration of one plugin.
	text   strictjson.Text
	single bool

	// derived has what Derive has made, by its key.
	derived sync.Map
}

// Derive returns what is made of a network alone, with a key of its own, and of no other file, nor of the host: it is made once.
// All callers share it, and do not change it.
func Derive[T any](n *Network, key any, of func() T) T {
	made, found := n.derived.Load(key)
	if !found {
		made, _ = n.derived.LoadOrStore(key, sync.OnceValue(of))
	}
	return made.(func() T)()
}

// Texts returns the file of the network, and its plugins unless the file has one alone.
func (n *Network) Texts() []strictjson.Text {
	switch {
	case n.text.Data == nil: // made from a list
		return nil
	case n.single:
		return []strictjson.Text{n.text}
	}
	return append([]strictjson.Text{n.text}, n.Plugins...)
}

// loadFile reads a file of a CNI configuration directory and, unless the network sets
// loadOnlyInlinedPlugins, the plugins in the subdirectory of its name. The result is the network that is known of an earlier time,
// unless it is nil, if that is the same.
func loadFile(path string, known *Network) (*Network, error) {
	data, err := readFile(path)
	if err != nil {
		return nil, err
	}
	if known != nil && bytes.Equal(data, known.text.Data) && known.isWhole() {
		return known, nil
	}
	list, err := parse(data)
	if err != nil {
		return nil, located(path, data, err)
	}
	n, err := newNetwork(path, list, data)
	if err != nil {
		return nil, err
	}
	if err := n.addSubdirectory(); err != nil {
		return nil, err
	}
	if len(list.Plugins) == 0 {
		return nil, fmt.Errorf("no plugins, neither under the key \"plugins\" nor in %s", filepath.Join(filepath.Dir(path), list.Name))
	}
	return n, nil
}

// ParseNetwork parses the configuration of a network that is embedded in the file at
// path. It reads no subdirectory.
func ParseNetwork(path string, data []byte) (*Network, error) {
	list, err := ParseList(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return newNetwork(path, list, data)
}

type listKeys struct {
	CNIVersion             json.RawMessage `json:"cniVersion"`
	CNIVersions            json.RawMessage `json:"cniVersions"`
	Name                   json.RawMessage `json:"name"`
	DisableCheck           json.RawMessage `json:"disableCheck"`
	DisableGC              json.RawMessage `json:"disableGC"`
	LoadOnlyInlinedPlugins json.RawMessage `json:"loadOnlyInlinedPlugins"`
	Plugins                json.RawMessage `json:"plugins"`
	Allocnet               json.RawMessage `json:"allocnet"`
}

// newNetwork returns the network of a file. A key that is there twice is refused: libcni takes
// the last one, and the first may be the one that its author means.
func newNetwork(path string, list *libcni.NetworkConfigList, data []byte) (*Network, error) {
	n := &Network{Name: list.Name, Path: path, List: list, text: strictjson.Text{Path: path, Line: 1, Data: data}}
	mistakes, err := n.text.Check(strictjson.Form{Of: "the network", Into: &listKeys{}, Skip: []string{"plugins", "allocnet"}, Ignore: func(string) bool { return true }})
	if err == nil && len(mistakes) > 0 {
		err = mistakes[0]
	}
	if err != nil {
		return nil, located(path, data, err)
	}
	members, err := n.text.Members()
	if err != nil {
		return nil, located(path, data, err)
	}
	for _, m := range members {
		switch m.Key {
		case "allocnet":
			n.Options = m.Value
		case "type":
			n.single = n.Plugins == nil
		case "plugins":
			n.single = false
			if n.Plugins, err = m.Value.Elements(); err != nil {
				return nil, located(path, data, err)
			}
		}
	}
	if n.single {
		n.Plugins = []strictjson.Text{n.text}
	}
	return n, nil
}

func (n *Network) addSubdirectory() error {
	files, err := n.furtherFiles()
	if err != nil {
		return fmt.Errorf("read plugin directory: %w", err)
	}
	for _, file := range files {
		data, err := readFile(file)
		if err != nil {
			return BrokenFile{Path: file, Err: err}
		}
		plugin, err := libcni.NetworkPluginConfFromBytes(data)
		if err != nil {
			return located(file, data, err)
		}
		n.List.Plugins = append(n.List.Plugins, plugin)
		n.Plugins = append(n.Plugins, strictjson.Text{Path: file, Line: 1, Data: data})
	}
	return nil
}

// furtherFiles returns the files of the network's subdirectory that have plugins of it.
func (n *Network) furtherFiles() ([]string, error) {
	if n.List.LoadOnlyInlinedPlugins {
		return nil, nil
	}
	return libcni.ConfFiles(filepath.Join(filepath.Dir(n.Path), n.Name), []string{".conf"})
}

// isWhole tells whether the file has all of the network: no plugin of it was in the subdirectory, nor is one now.
func (n *Network) isWhole() bool {
	files, err := n.furtherFiles()
	return err == nil && len(files) == 0 && !slices.ContainsFunc(n.Plugins, func(p strictjson.Text) bool { return p.Path != n.Path })
}

// ParseList parses a conflist, or the configuration of a single plugin, which
// becomes a list of one. It reads no subdirectory.
func ParseList(data []byte) (*libcni.NetworkConfigList, error) {
	list, err := parse(data)
	if err == nil && len(list.Plugins) == 0 {
		return nil, fmt.Errorf("no plugins")
	}
	return list, err
}

func parse(data []byte) (*libcni.NetworkConfigList, error) {
	var keys map[string]json.RawMessage
	if err := json.Unmarshal(data, &keys); err != nil {
		return nil, err
	}
	if _, single := keys["type"]; single && keys["plugins"] == nil {
		var err error
		if data, err = listOfOne(keys); err != nil {
			return nil, err
		}
	}
	list, err := libcni.NetworkConfFromBytes(data)
	if err != nil {
		return nil, errors.New(strings.TrimPrefix(err.Error(), "error parsing configuration list: "))
	}
	return list, validate(list)
}

// listOfOne wraps the configuration of a single plugin.
func listOfOne(conf map[string]json.RawMessage) ([]byte, error) {
	list := map[string]any{"plugins": []any{conf}}
	for _, key := range []string{"name", "cniVersion", "cniVersions", "disableCheck", "disableGC", "allocnet"} {
		value, ok := conf[key]
		if !ok {
			continue
		}
		list[key] = value
		if key != "name" && key != "cniVersion" {
			delete(conf, key) // of no plugin
		}
	}
	list["loadOnlyInlinedPlugins"] = true
	return json.Marshal(list)
}

func validate(list *libcni.NetworkConfigList) error {
	if err := utils.ValidateNetworkName(list.Name); err != nil {
		return fmt.Errorf("name %q: want letters, digits, '_', '.' and '-', beginning with a letter or digit", list.Name)
	}
	atLeast, err := version.GreaterThanOrEqualTo(list.CNIVersion, "0.3.0")
	above, _ := version.GreaterThan(list.CNIVersion, version.Current())
	if err != nil || !atLeast || above {
		return fmt.Errorf("cniVersion %q: want 0.3.0 to %s", list.CNIVersion, version.Current())
	}
	for i, plugin := range list.Plugins {
		for _, name := range []string{plugin.Network.Type, plugin.Network.IPAM.Type} {
			if strings.ContainsAny(name, "/\x00") || name == "." || name == ".." {
				return fmt.Errorf("plugins[%d]: type %q: want the name of a plugin, not a path", i, name)
			}
		}
	}
	return nil
}

// Capabilities returns the capabilities that the network's plugins declare, sorted.
func (n *Network) Capabilities() []string {
	declared := map[string]bool{}
	for _, plugin := range n.List.Plugins {
		for capability, on := range plugin.Network.Capabilities {
			if on {
				declared[capability] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(declared))
}

// PluginTypes returns the types of the plugins, in the order of the chain.
func (n *Network) PluginTypes() []string {
	var types []string
	for _, plugin := range n.List.Plugins {
		types = append(types, plugin.Network.Type)
	}
	return types
}

// binaries returns the executables that the network needs: its plugins and their IPAM
// plugins.
func (n *Network) binaries() []string {
	var names []string
	for _, plugin := range n.List.Plugins {
		for _, name := range []string{plugin.Network.Type, plugin.Network.IPAM.Type} {
			if name != "" && !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	return names
}
