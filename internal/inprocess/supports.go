// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package inprocess

import (
	"bytes"
	"debug/buildinfo"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/containernetworking/cni/libcni"
	"github.com/containernetworking/cni/pkg/types"

	"github.com/allocnet/allocnet/internal/files"
	"github.com/allocnet/allocnet/internal/inprocess/plugin"
	"github.com/allocnet/allocnet/internal/strictjson"
)

// Supports returns nil if a network can be executed in this process: every plugin of its
// chain is of a known type, every key of their configurations is understood, and no plugin
// directory has another program of that type than the reference plugin. The error names the
// plugin and the reason.
func Supports(list *libcni.NetworkConfigList, pluginDirs []string) error {
	for _, p := range list.Plugins {
		if err := supports(p, pluginDirs); err != nil {
			return err
		}
	}
	return supportsLease(list)
}

func unsupported(plugin, reason string) error { return fmt.Errorf("plugin %q: %s", plugin, reason) }

func supports(p *libcni.PluginConfig, dirs []string) error {
	name := p.Network.Type
	known, ok := plugins[name]
	if !ok {
		return unsupported(name, "is not executed in process")
	}
	conf, ipamConf, err := splitIPAM(p.Bytes)
	if err != nil {
		return unsupported(name, err.Error())
	}
	if err := understands(known, conf); err != nil {
		return unsupported(name, err.Error())
	}
	if err := refuseForeign(name, dirs); err != nil {
		return err
	}
	return supportsIPAM(p.Network.IPAM.Type, ipamConf, dirs)
}

func understands(known plugin.Type, conf []byte) error {
	err := decodeStrictly(conf, known.Config())
	if err == nil && known.Understands != nil {
		err = known.Understands(conf)
	}
	return err
}

func supportsIPAM(name string, conf []byte, dirs []string) error {
	if name == "" {
		return nil
	}
	known, ok := ipams[name]
	if !ok {
		return unsupported(name, "is not executed in process")
	}
	err := understands(known, conf)
	if err == nil {
		err = refuseUnknownRouteKeys(conf)
	}
	if err != nil {
		return unsupported(name, err.Error())
	}
	return refuseForeign(name, dirs)
}

// routeKeys are the keys of types.Route, which decodes itself and ignores all others.
type routeKeys struct {
	Dst, GW, MTU, AdvMSS, Priority, Table, Scope json.RawMessage
}

func refuseUnknownRouteKeys(ipam []byte) error {
	var conf struct{ Routes []json.RawMessage }
	if err := json.Unmarshal(ipam, &conf); err != nil {
		return err
	}
	for i, route := range conf.Routes {
		if err := decodeStrictly(route, &routeKeys{}); err != nil {
			return fmt.Errorf("ipam.routes[%d]: %w", i, err)
		}
	}
	return nil
}

// validAttachments is the key of the CNI specification that has the form of a remark.
const validAttachments = "cni.dev/valid-attachments"

// splitIPAM returns a plugin's configuration without "ipam" and remarks, and the object under
// "ipam".
func splitIPAM(config []byte) (rest, ipam []byte, err error) {
	var keys map[string]json.RawMessage
	if err := json.Unmarshal(config, &keys); err != nil {
		return nil, nil, err
	}
	ipam = keys["ipam"]
	delete(keys, "ipam")
	maps.DeleteFunc(keys, func(key string, _ json.RawMessage) bool { return isRemark(key) && key != validAttachments })
	rest, err = json.Marshal(keys)
	return rest, ipam, err
}

// decodeStrictly decodes a configuration into what understands all its keys. A key that is
// not understood may change what the plugin does.
func decodeStrictly(config []byte, into any) error {
	decoder := json.NewDecoder(bytes.NewReader(config))
	decoder.DisallowUnknownFields()
	return decoder.Decode(into)
}

// otherKeys are those that reference plugins have and that are not executed in process.
var otherKeys = map[string][]string{"bridge": {"macspoofchk"}, dhcpIPAM: {"daemonSocketPath", "priority", "provide", "request"}}

// Mistakes returns the keys that neither the reference plugin knows nor this package, and those
// that are there twice, of a plugin's configuration as it is written. Of other plugins there are
// none: only they know their keys.
func Mistakes(name, ipamName string, text strictjson.Text) ([]*strictjson.Mistake, error) {
	known, ok := plugins[name]
	if !ok {
		return nil, nil
	}
	ignore := func(key string) bool { return isRemark(key) || slices.Contains(otherKeys[name], key) || isListKey(key) }
	mistakes, err := text.Check(strictjson.Form{Of: name, Into: known.Config(), Skip: freeKeys, Ignore: ignore})
	if err != nil {
		return nil, err
	}
	members, err := text.Members()
	if err != nil {
		return nil, err
	}
	for _, m := range members {
		ipam, ok := ipams[ipamName]
		if m.Key != "ipam" || !ok || ipamName == ownIPAM { // that one knows its keys by itself
			continue
		}
		further, err := m.Value.Check(strictjson.Form{
			Of: ipamName, Into: ipam.Config(), Ignore: func(key string) bool { return isRemark(key) || slices.Contains(otherKeys[ipamName], key) },
			Instead: map[reflect.Type]reflect.Type{reflect.TypeFor[types.Route](): reflect.TypeFor[routeKeys]()},
		})
		if err != nil {
			return nil, err
		}
		mistakes = append(mistakes, further...)
	}
	return mistakes, nil
}

// freeKeys have values in which others may have keys of their own.
var freeKeys = []string{"ipam", "args", "runtimeConfig", "capabilities", "prevResult"}

// isRemark tells whether a key is for people, or for a program that marks it as its own.
func isRemark(key string) bool {
	return strings.ContainsAny(key, "./$#") || strings.HasPrefix(key, "_") || strings.HasPrefix(key, "x-")
}

// isListKey tells whether a key is one of a list, which the file of a single plugin has as well.
func isListKey(key string) bool {
	return slices.Contains([]string{"allocnet", "cniVersions", "disableCheck", "disableGC", "loadOnlyInlinedPlugins"}, key)
}

// referenceModule begins the package paths of the reference plugins.
const referenceModule = "github.com/containernetworking/plugins/plugins/"

// refuseForeign refuses a type of which the first plugin directory that has it holds
// another program than the reference plugin: the operator put it there.
func refuseForeign(name string, dirs []string) error {
	for _, dir := range dirs {
		path := filepath.Join(dir, name)
		info, err := os.Stat(path)
		if errors.Is(err, fs.ErrNotExist) || err == nil && !info.Mode().IsRegular() {
			continue
		}
		if err != nil {
			return unsupported(name, err.Error())
		}
		built, err := packageOf(path)
		if err != nil || !isReference(built, name) {
			return unsupported(name, path+" is not the reference plugin")
		}
		return nil
	}
	return nil
}

// programs are the package paths of the programs that were read, by files.Identity.
var programs sync.Map

// packageOf returns the package path of the program at a path, which is read once.
func packageOf(path string) (string, error) {
	identity := files.Identity(path)
	if known, ok := programs.Load(identity); ok {
		return known.(string), nil
	}
	built, err := buildinfo.ReadFile(path)
	if err != nil {
		return "", err
	}
	if identity != "" && files.Identity(path) == identity {
		programs.Store(identity, built.Path)
	}
	return built.Path, nil
}

// ownProgram is the package path of allocnet's IPAM plugin.
const ownProgram = "github.com/allocnet/allocnet/cmd/" + ownIPAM

func isReference(path, name string) bool {
	if name == ownIPAM {
		return path == ownProgram
	}
	return slices.ContainsFunc([]string{"main/", "meta/", "ipam/"}, func(kind string) bool { return path == referenceModule+kind+name })
}
