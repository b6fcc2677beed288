// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package config

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/hashicorp/hcl/v2"

	"github.com/allocnet/allocnet/agent"
	"github.com/allocnet/allocnet/cluster/connect"
	"github.com/allocnet/allocnet/hook"
	"github.com/allocnet/allocnet/internal/hclfile"
)

// LoadDefault is Load for the default path: a missing path is an empty configuration.
func LoadDefault(path string) (Config, error) {
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return Config{}, nil
	}
	return Load(path)
}

// Load reads a file, or the .hcl files of a directory in lexical order as one file. A
// missing path is an error: with the defaults instead, a typing error in the path would
// go unnoticed. The error is an *hclfile.Error unless a file cannot be read.
func Load(path string) (Config, error) {
	var f file
	body, err := hclfile.Load(path)
	if err == nil {
		err = decode(body, &f)
	}
	if err != nil {
		return Config{}, err
	}
	return f.config()
}

// decode sets the fields of a struct with the tags of gohcl. The error is an *hclfile.Error.
func decode(body hcl.Body, into any) error {
	var v hclfile.Values
	v.Decode(body, into)
	return v.Err()
}

// file is the configuration in HCL. Settings whose values are checked are expressions,
// so that an error has their position.
type file struct {
	ConfDir     string         `hcl:"conf_dir,optional"`
	PluginDirs  []string       `hcl:"plugin_dirs,optional"`
	Executor    hcl.Expression `hcl:"executor,optional"`
	StateDir    string         `hcl:"state_dir,optional"`
	CallTimeout hcl.Expression `hcl:"call_timeout,optional"`
	LogLevel    hcl.Expression `hcl:"log_level,optional"`
	LogFormat   hcl.Expression `hcl:"log_format,optional"`
	Pprof       bool           `hcl:"pprof,optional"`
	ReadyFile   string         `hcl:"ready_file,optional"`
	Hook        hcl.Expression `hcl:"hook,optional"`
	Socket      *struct {
		Path  string         `hcl:"path,optional"`
		Owner hcl.Expression `hcl:"owner,optional"`
		Group hcl.Expression `hcl:"group,optional"`
	} `hcl:"socket,block"`
	Limits *struct {
		Connections    hcl.Expression `hcl:"connections,optional"`
		Requests       hcl.Expression `hcl:"requests,optional"`
		Body           hcl.Expression `hcl:"body,optional"`
		HeaderTimeout  hcl.Expression `hcl:"header_timeout,optional"`
		ReadTimeout    hcl.Expression `hcl:"read_timeout,optional"`
		RequestTimeout hcl.Expression `hcl:"request_timeout,optional"`
		DrainTimeout   hcl.Expression `hcl:"drain_timeout,optional"`
	} `hcl:"limits,block"`
	Reconcile *struct {
		Interval hcl.Expression `hcl:"interval,optional"`
		Leaks    hcl.Expression `hcl:"leaks,optional"`
	} `hcl:"reconcile,block"`
	Repair *struct {
		Mode hcl.Expression `hcl:"mode,optional"`
	} `hcl:"repair,block"`
	Nomad   *connect.Nomad     `hcl:"nomad,block"`
	IPAM    *connect.IPAMBlock `hcl:"ipam,block"`
	Cluster *struct {
		Address      hcl.Expression `hcl:"address,optional"`
		NodeNetworks hcl.Expression `hcl:"node_networks,optional"`
		Filtering    hcl.Expression `hcl:"filtering,optional"`
	} `hcl:"cluster,block"`
	Multi *struct {
		Primary  string         `hcl:"primary,optional"`
		Source   string         `hcl:"source,optional"`
		Name     string         `hcl:"name,optional"`
		Networks string         `hcl:"networks,optional"`
		AllocDir string         `hcl:"alloc_dir,optional"`
		Identity hcl.Expression `hcl:"identity,optional"`
		Path     string         `hcl:"path,optional"`
		Agent    hcl.Expression `hcl:"agent,optional"`
		Where    hcl.Range      `hcl:",def_range"`
	} `hcl:"multi,block"`
	CNI *struct {
		Plugin string `hcl:"plugin,optional"`
		Chroot string `hcl:"chroot,optional"`
	} `hcl:"cni,block"`
	Metrics *struct {
		Listen    hcl.Expression `hcl:"listen,optional"`
		WebConfig string         `hcl:"web_config,optional"`
		Where     hcl.Range      `hcl:",def_range"`
	} `hcl:"metrics,block"`
}

// directories splits a list of the form of PATH; nil for none.
func directories(list string) []string {
	if list == "" {
		return nil
	}
	return filepath.SplitList(list)
}

func (f *file) config() (Config, error) {
	var v values
	c := Config{
		ConfDirs: directories(f.ConfDir), PluginDirs: f.PluginDirs, StateDir: f.StateDir, Pprof: f.Pprof, ReadyFile: f.ReadyFile,
		Executor:    v.OneOf(f.Executor, hook.ExecutorAuto, hook.ExecutorPlugins),
		CallTimeout: v.Duration(f.CallTimeout),
		LogLevel:    v.OneOf(f.LogLevel, "trace", "debug", "info", "warn", "error", "off"),
		LogFormat:   v.OneOf(f.LogFormat, "text", "json", "journal"),
		Hook:        v.OneOf(f.Hook, hook.CNI, hook.NoOp),
		Limits:      f.limits(&v),
		Nomad:       f.Nomad,
		IPAM:        f.IPAM.Read(&v.Values),
		Multi:       f.multi(&v),
	}
	if s := f.Socket; s != nil {
		c.Socket = Socket{s.Path, agent.Access{Owner: v.user(s.Owner), Group: v.group(s.Group)}}
	}
	if r := f.Reconcile; r != nil {
		c.Reconcile = Reconcile{v.Duration(r.Interval), v.OneOf(r.Leaks, "report", "remove")}
	}
	if r := f.Repair; r != nil {
		c.Repair = Repair{v.OneOf(r.Mode, "report", "rules", "reattach")}
	}
	if b := f.Cluster; b != nil {
		c.Cluster = Cluster{v.nodeAddress(b.Address), v.prefixes(b.NodeNetworks), v.OneOf(b.Filtering, Report, Accept)}
	}
	if f.CNI != nil {
		c.CNI = CNI(*f.CNI)
	}
	if m := f.Metrics; m != nil {
		c.Metrics = &Metrics{v.hostPort(m.Listen, m.Where), m.WebConfig}
	}
	if blocks := f.cniBlocks(); c.Hook == hook.NoOp && len(blocks) > 0 {
		v.Fault(f.Hook.Range(), strconv.Quote(c.Hook), "want \"cni\" for the blocks "+strings.Join(blocks, ", "))
	}
	if err := v.Err(); err != nil {
		return Config{}, err
	}
	return c, nil
}

func (f *file) limits(v *values) Limits {
	l := f.Limits
	if l == nil {
		return Limits{}
	}
	return Limits{
		Connections: int(v.Count(l.Connections)), Requests: int(v.Count(l.Requests)), Body: v.Count(l.Body),
		HeaderTimeout: v.Duration(l.HeaderTimeout), ReadTimeout: v.Duration(l.ReadTimeout),
		RequestTimeout: v.Duration(l.RequestTimeout), DrainTimeout: v.Duration(l.DrainTimeout),
	}
}

func (f *file) multi(v *values) *Multi {
	m := f.Multi
	if m == nil {
		return nil
	}
	if (m.Primary == "") == (m.Source == "") {
		v.Fault(m.Where, "multi", "want either primary, the name of the main network, or source, a file to install without changes")
	}
	multi := &Multi{m.Primary, m.Source, cmp.Or(m.Name, "multi"), m.Networks, m.AllocDir, v.OneOf(m.Identity, "nomad", "unknown"), m.Path, v.OneOf(m.Agent, "prefer", "require")}
	if f.Nomad != nil && f.Nomad.JobNetworks {
		if multi.Agent == "prefer" {
			v.Fault(m.Where, "multi", "agent: want \"require\" with job_networks: without the agent allocations would start without the networks of their jobs")
		}
		multi.Agent = "require"
	}
	return multi
}

// cniBlocks lists the blocks that configure the hook "cni".
func (f *file) cniBlocks() []string {
	var names []string
	for _, block := range []struct {
		name string
		set  bool
	}{{"reconcile", f.Reconcile != nil}, {"repair", f.Repair != nil}, {"nomad", f.Nomad != nil}, {"ipam", f.IPAM != nil}, {"cluster", f.Cluster != nil}, {"multi", f.Multi != nil}, {"cni", f.CNI != nil}} {
		if block.set {
			names = append(names, block.name)
		}
	}
	return names
}
