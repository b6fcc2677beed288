// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package config

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/gohcl"
	"github.com/hashicorp/hcl/v2/hclparse"

	"github.com/allocnet/allocnet/agent"
	"github.com/allocnet/allocnet/hook"
	"github.com/allocnet/allocnet/internal/errdefs"
)

// Error has all errors of the files.
type Error struct{ Diagnostics hcl.Diagnostics }

// Error has a line for each error, as file:line,column: summary; detail.
func (e *Error) Error() string {
	errs := make([]error, len(e.Diagnostics))
	for i, d := range e.Diagnostics {
		errs[i] = d
	}
	return errors.Join(errs...).Error()
}

// Kind is that of package errdefs.
func (*Error) Kind() errdefs.Kind { return errdefs.Refused }

// LoadDefault is Load for the default path: a missing path is an empty configuration.
func LoadDefault(path string) (Config, error) {
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return Config{}, nil
	}
	return Load(path)
}

// Load reads a file, or the .hcl files of a directory in lexical order as one file. A
// missing path is an error: with the defaults instead, a typing error in the path would
// go unnoticed. The error is an *Error unless a file cannot be read.
func Load(path string) (Config, error) {
	files, err := filesAt(path)
	if err != nil {
		return Config{}, err
	}
	body, err := parse(files)
	if err != nil {
		return Config{}, err
	}
	var f file
	if faults := gohcl.DecodeBody(body, nil, &f); faults.HasErrors() {
		return Config{}, &Error{faults}
	}
	return f.config()
}

func filesAt(path string) ([]string, error) {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, errdefs.As(errdefs.Refused, fmt.Errorf("configuration: %w: want a .hcl file, or a directory of them", err))
	case err != nil:
		return nil, fmt.Errorf("configuration: %w", err)
	case !info.IsDir():
		return []string{path}, nil
	}
	files, err := filepath.Glob(filepath.Join(path, "*.hcl"))
	slices.Sort(files)
	return files, err
}

func parse(files []string) (hcl.Body, error) {
	parser := hclparse.NewParser()
	var parsed []*hcl.File
	var faults hcl.Diagnostics
	for _, path := range files {
		file, more := parser.ParseHCLFile(path)
		faults = append(faults, more...)
		parsed = append(parsed, file)
	}
	if faults.HasErrors() {
		return nil, &Error{faults}
	}
	return hcl.MergeFiles(parsed), nil
}

// file is the configuration in HCL. Settings whose values are checked are expressions,
// so that an error has their position.
type file struct {
	ConfDir     string         `hcl:"conf_dir,optional"`
	PluginDirs  []string       `hcl:"plugin_dirs,optional"`
	Executor    string         `hcl:"executor,optional"`
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
	Nomad *struct {
		Address     string `hcl:"address,optional"`
		TokenFile   string `hcl:"token_file,optional"`
		CAFile      string `hcl:"ca_file,optional"`
		CertFile    string `hcl:"cert_file,optional"`
		KeyFile     string `hcl:"key_file,optional"`
		TLSName     string `hcl:"tls_server_name,optional"`
		NodeID      string `hcl:"node_id,optional"`
		Metadata    bool   `hcl:"metadata,optional"`
		Events      bool   `hcl:"events,optional"`
		JobNetworks bool   `hcl:"job_networks,optional"`
	} `hcl:"nomad,block"`
	IPAM *struct {
		Store     hcl.Expression `hcl:"store,optional"`
		Namespace hcl.Expression `hcl:"namespace,optional"`
		Region    hcl.Expression `hcl:"region,optional"`
		Reclaim   hcl.Expression `hcl:"reclaim,optional"`
		Grace     hcl.Expression `hcl:"grace,optional"`
		Fence     hcl.Expression `hcl:"fence,optional"`
	} `hcl:"ipam,block"`
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
		ConfDirs: directories(f.ConfDir), PluginDirs: f.PluginDirs, Executor: f.Executor, StateDir: f.StateDir, Pprof: f.Pprof, ReadyFile: f.ReadyFile,
		CallTimeout: v.duration(f.CallTimeout),
		LogLevel:    v.oneOf(f.LogLevel, "trace", "debug", "info", "warn", "error", "off"),
		LogFormat:   v.oneOf(f.LogFormat, "text", "json", "journal"),
		Hook:        v.oneOf(f.Hook, hook.CNI, hook.NoOp),
		Limits:      f.limits(&v),
		IPAM:        f.ipam(&v),
		Multi:       f.multi(&v),
	}
	if s := f.Socket; s != nil {
		c.Socket = Socket{s.Path, agent.Access{Owner: v.user(s.Owner), Group: v.group(s.Group)}}
	}
	if r := f.Reconcile; r != nil {
		c.Reconcile = Reconcile{v.duration(r.Interval), v.oneOf(r.Leaks, "report", "remove")}
	}
	if n := f.Nomad; n != nil {
		nomad := Nomad(*n)
		c.Nomad = &nomad
	}
	if f.CNI != nil {
		c.CNI = CNI(*f.CNI)
	}
	if m := f.Metrics; m != nil {
		c.Metrics = &Metrics{v.hostPort(m.Listen, m.Where), m.WebConfig}
	}
	if blocks := f.cniBlocks(); c.Hook == hook.NoOp && len(blocks) > 0 {
		v.fault(f.Hook.Range(), strconv.Quote(c.Hook), "want \"cni\" for the blocks "+strings.Join(blocks, ", "))
	}
	if len(v.faults) > 0 {
		return Config{}, &Error{v.faults}
	}
	return c, nil
}

func (f *file) limits(v *values) Limits {
	l := f.Limits
	if l == nil {
		return Limits{}
	}
	return Limits{
		Connections: int(v.count(l.Connections)), Requests: int(v.count(l.Requests)), Body: v.count(l.Body),
		HeaderTimeout: v.duration(l.HeaderTimeout), ReadTimeout: v.duration(l.ReadTimeout),
		RequestTimeout: v.duration(l.RequestTimeout), DrainTimeout: v.duration(l.DrainTimeout),
	}
}

// nodeRetention is the time for which Nomad keeps a node that is down, unless configured
// (node_gc_threshold of its servers): a node is not reclaimed earlier.
const nodeRetention = 24 * time.Hour

func (f *file) ipam(v *values) *IPAM {
	i := f.IPAM
	if i == nil {
		return nil
	}
	ipam := &IPAM{
		Store: v.oneOf(i.Store, "nomad", "file"), Namespace: v.name(i.Namespace), Region: v.name(i.Region),
		Reclaim: v.oneOf(i.Reclaim, "auto", "manual"), Grace: v.duration(i.Grace), Fence: v.duration(i.Fence),
	}
	if ipam.Store == "file" {
		v.unset("with store = \"file\" there is none", i.Namespace, i.Region)
	}
	if limit := nodeRetention + cmp.Or(ipam.Grace, time.Hour); ipam.Fence >= limit {
		v.fault(i.Fence.Range(), strconv.Quote(ipam.Fence.String()), fmt.Sprintf("want less than %s, which is 24h and grace: a node that is gone for longer may have lost its blocks", limit))
	}
	return ipam
}

func (f *file) multi(v *values) *Multi {
	m := f.Multi
	if m == nil {
		return nil
	}
	if (m.Primary == "") == (m.Source == "") {
		v.fault(m.Where, "multi", "want either primary, the name of the main network, or source, a file to install without changes")
	}
	multi := &Multi{m.Primary, m.Source, cmp.Or(m.Name, "multi"), m.Networks, m.AllocDir, v.oneOf(m.Identity, "nomad", "unknown"), m.Path, v.oneOf(m.Agent, "prefer", "require")}
	if multi.Agent == "" && f.Nomad != nil && f.Nomad.JobNetworks {
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
	}{{"reconcile", f.Reconcile != nil}, {"nomad", f.Nomad != nil}, {"ipam", f.IPAM != nil}, {"multi", f.Multi != nil}, {"cni", f.CNI != nil}} {
		if block.set {
			names = append(names, block.name)
		}
	}
	return names
}
