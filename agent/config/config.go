// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Package config reads the configuration of the agent and of units: HCL, with
// errors that say file, line and column.
package config

import (
	"net/netip"
	"reflect"
	"time"

	"github.com/allocnet/allocnet/agent"
	"github.com/allocnet/allocnet/cluster/connect"
)

// DefaultDir has the agent's configuration files unless configured.
const DefaultDir = "/etc/allocnet.d"

// Config is the agent's configuration. A setting that no file has is the zero value,
// for which the agent has a default.
type Config struct {
	// ConfDirs, PluginDirs, Executor, StateDir and CallTimeout are as in hook.Config.
	ConfDirs    []string      `name:"conf_dir"`
	PluginDirs  []string      `name:"plugin_dirs"`
	Executor    string        `name:"executor"`
	StateDir    string        `name:"state_dir"`
	CallTimeout time.Duration `name:"call_timeout"`
	// LogLevel is hclog's. Empty: info.
	LogLevel string `name:"log_level"`
	// LogFormat is "text", "json" or "journal", which is text with the level
	// prefixes of sd-daemon(3). Empty: journal if stderr is the journal, else text.
	LogFormat string `name:"log_format"`
	Pprof     bool   `name:"pprof"`
	Socket    Socket `name:"socket"`
	Limits    Limits `name:"limits"`
	Reconcile Reconcile
	// Repair configures the repair of attachments.
	Repair Repair
	// Nomad is nil without the block.
	Nomad *Nomad `name:"nomad"`
	// IPAM is nil without the block: then allocnet-ipam stores the pools on this host.
	IPAM *IPAM `name:"ipam"`
	// Cluster configures the pools whose networks span hosts.
	Cluster Cluster `name:"cluster"`
	// Multi is nil without the block: then the agent writes no conflist.
	Multi *Multi `name:"multi"`
	// CNI configures the execution of CNI calls.
	CNI CNI `name:"cni"`
	// Metrics is nil without the block: then only the socket has the metrics.
	Metrics *Metrics `name:"metrics"`
	// ReadyFile has to exist for the agent to be ready. Empty: none.
	ReadyFile string `name:"ready_file"`
	// Hook is "cni", or "noop" for a host whose networks are managed elsewhere.
	// Empty: cni.
	Hook string `name:"hook"`
}

// Socket has the path and the users of the socket.
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

// Reconcile configures garbage collection.
type Reconcile struct {
	// Interval is the time between two rounds. 0: one minute.
	Interval time.Duration
	// Leaks is "report" or "remove". Empty: remove.
	Leaks string
}

// Repair configures the repair of attachments.
type Repair struct {
	// Mode is "report", "rules" or "reattach", as in package hook. Empty: rules.
	Mode string
}

type (
	// Nomad configures the client of the Nomad agent on this host. allocnet-ipam reads it, too.
	Nomad = connect.Nomad
	// IPAM configures the store of allocnet-ipam, and what the agent does for its pools.
	IPAM = connect.IPAM
)

// Cluster configures the pools whose networks span hosts.
type Cluster struct {
	// Address is where other hosts send what is for this host's blocks. Not valid: Nomad's
	// address of this node.
	Address netip.Addr
	// NodeNetworks are where the addresses of nodes may be that Nomad has another address of.
	// Nil: none.
	NodeNetworks []netip.Prefix
	// Filtering is Report or Accept: whether what drops packets of the pools is reported, or changed.
	// Empty: Report.
	Filtering string
}

// Values of Cluster.Filtering.
const (
	Report = "report"
	Accept = "accept"
)

// Multi configures the conflist of allocnet-cni that the agent writes.
type Multi struct {
	// Primary is the main network's name.
	Primary string
	// Source is a file to install without changes, instead of a conflist that is
	// generated from Primary.
	Source string
	// Name is the conflist's. Empty: multi.
	Name string
	// Networks are attached to every allocation. Empty: none.
	Networks string
	// AllocDir is the Nomad client's alloc_dir, for network-status.json and
	// network.env. Empty: these files are not written.
	AllocDir string
	// Identity is "nomad", or "unknown" for a Nomad whose jobs can forge it. Empty: nomad.
	Identity string
	// Path is the file to write. Empty: 00-NAME.conflist in the last of ConfDirs.
	Path string
	// Agent is "prefer" or "require": calls are delegated to the agent, and the plugin
	// does the work itself without an agent, or fails. Empty: calls are not delegated,
	// except with Nomad.JobNetworks, which only the agent reads: then it is "require".
	Agent string
}

// CNI configures the execution of CNI calls.
type CNI struct {
	// Plugin is the path of allocnet-cni, which is executed for each call. Empty: the agent
	// does the work itself; in a chroot the one in the plugin directories is executed.
	Plugin string
	// Chroot is the mount point of the host's root, for an agent in a container.
	// Empty: /.
	Chroot string
}

// Metrics configures a TCP listener for the metrics.
type Metrics struct {
	// Listen is the address, as host:port. Required.
	Listen string
	// WebConfig is a file with TLS and users, in the format of Prometheus' exporter
	// toolkit. Empty: neither.
	WebConfig string
}

// NeedRestart returns the names of the changed settings that a running agent does not
// apply, in the order of the struct.
func (c Config) NeedRestart(next Config) []string {
	next.LogLevel, next.Reconcile, next.Repair, next.IPAM, next.Cluster = c.LogLevel, c.Reconcile, c.Repair, c.IPAM, c.Cluster
	var names []string
	old, now := reflect.ValueOf(c), reflect.ValueOf(next)
	for i := range old.NumField() {
		if !reflect.DeepEqual(old.Field(i).Interface(), now.Field(i).Interface()) {
			names = append(names, old.Type().Field(i).Tag.Get("name"))
		}
	}
	return names
}
