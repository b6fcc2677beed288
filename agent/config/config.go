// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Package config reads the configuration of the agent and of units: HCL, with
// errors that say file, line and column.
package config

import (
	"reflect"
	"time"

	"github.com/allocnet/allocnet/agent"
)

// DefaultDir holds the agent's configuration files when nothing else is said.
const DefaultDir = "/etc/allocnet.d"

// Config is the agent's. What a file does not set is the zero value, for which
// whoever uses it has a default.
type Config struct {
	// ConfDirs, PluginDirs, StateDir and CallTimeout are as in hook.Config.
	ConfDirs    []string      `name:"conf_dir"`
	PluginDirs  []string      `name:"plugin_dirs"`
	StateDir    string        `name:"state_dir"`
	CallTimeout time.Duration `name:"call_timeout"`
	// LogLevel is hclog's. Empty: info.
	LogLevel string `name:"log_level"`
	// LogFormat is "text", "json" or "journal", which is text with the level
	// prefixes of sd-daemon(3). Empty: journal where the journal reads, else
	// text.
	LogFormat string `name:"log_format"`
	Pprof     bool   `name:"pprof"`
	Socket    Socket `name:"socket"`
	Limits    Limits `name:"limits"`
	Reconcile Reconcile
	// Nomad is nil where the agent asks no Nomad.
	Nomad *Nomad `name:"nomad"`
	// Multi is nil where the agent writes no conflist.
	Multi *Multi `name:"multi"`
	// CNI is how CNI calls are carried out.
	CNI CNI `name:"cni"`
	// ReadyFile has to exist before the agent is ready. Empty: none.
	ReadyFile string `name:"ready_file"`
	// Hook is "cni", or "noop" for a host whose networks are managed elsewhere.
	// Empty: cni.
	Hook string `name:"hook"`
}

// Socket is where the agent listens, and for whom.
type Socket struct {
	// Path is the socket's. Empty: api.DefaultSocket.
	Path   string
	Access agent.Access
}

// Limits are those of agent.Config.
type Limits struct {
	Connections, Requests                                    int
	Body                                                     int64
	HeaderTimeout, ReadTimeout, RequestTimeout, DrainTimeout time.Duration
}

// Reconcile says how leaks are looked for.
type Reconcile struct {
	// Interval is the time between two rounds. 0: a minute.
	Interval time.Duration
	// Leaks is "report" or "remove". Empty: remove.
	Leaks string
}

// Nomad says which Nomad agent knows what lives on this host.
type Nomad struct {
	// Address is the Nomad agent's. Empty: http://127.0.0.1:4646.
	Address string
	// TokenFile holds the ACL token; it is read anew for each request. Empty:
	// none.
	TokenFile                          string
	CAFile, CertFile, KeyFile, TLSName string
	// NodeID is this host's. Empty: the Nomad agent is asked.
	NodeID string
	// Metadata publishes the networks as node metadata.
	Metadata bool
	// Events has Nomad tell what changes on this node, so that the end of an allocation is
	// known at once.
	Events bool
	// JobNetworks reads networks from further network blocks and group meta.
	JobNetworks bool
}

// Multi is the conflist of allocnet-cni that the agent writes and keeps.
type Multi struct {
	// Primary is the main network's name.
	Primary string
	// Source is a file that is installed as it is, instead of one made from
	// Primary.
	Source string
	// Name is the conflist's. Empty: multi.
	Name string
	// Networks are attached to every allocation. Empty: none.
	Networks string
	// DataDir is the Nomad client's. Empty: none.
	DataDir string
	// Path is the file that is written. Empty: 00-NAME.conflist in the
	// last of ConfDirs.
	Path string
	// Agent is "prefer" or "require": calls are carried out by the agent, and
	// the plugin may, or may not, do without. Empty: the plugin does it all,
	// unless Nomad.JobNetworks, which only the agent can read: then "require".
	Agent string
}

// CNI says how CNI calls are carried out.
type CNI struct {
	// Plugin is the path of allocnet-cni. Empty: the one in the plugin
	// directories.
	Plugin string
	// Chroot is where the host's files are, for an agent in a container.
	// Empty: /.
	Chroot string
}

// NeedRestart names, sorted as in the struct, what differs and is not taken up
// by a running agent.
func (c Config) NeedRestart(next Config) []string {
	next.LogLevel, next.Reconcile = c.LogLevel, c.Reconcile
	var names []string
	old, now := reflect.ValueOf(c), reflect.ValueOf(next)
	for i := range old.NumField() {
		if !reflect.DeepEqual(old.Field(i).Interface(), now.Field(i).Interface()) {
			names = append(names, old.Type().Field(i).Tag.Get("name"))
		}
	}
	return names
}
