// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package cniplugin

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"

	"time"

	"github.com/containernetworking/cni/pkg/skel"
	"github.com/containernetworking/cni/pkg/types"
	"github.com/hashicorp/go-hclog"
	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/cniconf"
	"github.com/allocnet/allocnet/cniplugin/shim"
	"github.com/allocnet/allocnet/event"
	"github.com/allocnet/allocnet/hook"
	"github.com/allocnet/allocnet/portmap"
	"github.com/allocnet/allocnet/selection"
)

// request is one call of a runtime.
type request struct {
	ctx  context.Context
	args *skel.CmdArgs
	conf *conf
	// command is CNI_COMMAND.
	command string
	engine  *hook.Engine
	log     hclog.Logger
	later   func(config []byte) error
	// refusal is why the agent has not carried out the call. Nil: it was not to do that.
	refusal *shim.Refusal
	printed bytes.Buffer
	close   func()
}

func (c Call) newRequest(ctx context.Context, args *skel.CmdArgs, strict bool) (*request, error) {
	conf, warning, err := readConf(args.StdinData, strict)
	if err != nil {
		return nil, err
	}
	conf.PluginDir = cmp.Or(conf.PluginDir, args.Path)
	if err := c.addArgs(ctx, conf); err != nil {
		return nil, err
	}
	r := &request{args: args, conf: conf, command: c.Getenv("CNI_COMMAND"), later: c.Later}
	if conf.Agent != nil {
		r.refusal = c.Refusal
	}
	output, err := c.openLog(conf.LogFile)
	if err != nil && strict {
		return nil, err
	}
	r.log = newLog(conf, output).With("container", args.ContainerID)
	if warning = errors.Join(warning, err); warning != nil {
		r.log.Warn("mistake in the plugin configuration", "error", line(warning))
	}
	config := conf.engineConfig()
	config.Logger, config.Observers, config.AnnounceAgain = r.log, []hook.Observer{event.NewRecorder(conf.StateDir, Name, r.log)}, c.AnnounceAgain
	if r.engine, err = hook.NewEngine(config); err != nil {
		_ = output.Close() // nothing was written
		return nil, err
	}
	r.limit(ctx, output)
	return r, nil
}

func (c Call) addArgs(ctx context.Context, to *conf) error {
	if c.Args == nil {
		return nil
	}
	added, err := c.Args(ctx)
	if to.Args.CNI == nil {
		to.Args.CNI = map[string]json.RawMessage{}
	}
	maps.Copy(to.Args.CNI, added)
	return err
}

// engineConfig is the configuration of the engine, without a logger and observers. In a call the networks are read once.
func (c *conf) engineConfig() hook.Config {
	return hook.Config{
		ConfDirs:    filepath.SplitList(c.ConfDir),
		Catalog:     sync.OnceValues(c.catalog),
		PluginDirs:  filepath.SplitList(c.PluginDir),
		Executor:    c.Executor,
		StateDir:    c.StateDir,
		CallTimeout: c.timeout,
	}
}

// catalog returns the delegates and the networks of confDir, which delegates make optional.
func (c *conf) catalog() (*cniconf.Catalog, error) {
	dirs := cniconf.Dirs(filepath.SplitList(c.ConfDir))
	catalog, err := cniconf.Load(dirs...)
	if errors.Is(err, cniconf.ErrNoDir) && len(c.delegates) > 0 {
		catalog, err = &cniconf.Catalog{Dirs: dirs}, nil
	}
	if err != nil {
		return nil, err
	}
	catalog.Networks = slices.Concat(c.delegates, catalog.Networks)
	return catalog, nil
}

// limit sets the deadline of the call: a runtime may hold a lock for all its
// containers while it waits, as Nomad does. A call that is interrupted undoes what
// it began.
func (r *request) limit(ctx context.Context, output io.Closer) {
	cause := refuse(types.ErrTryAgainLater, fmt.Sprintf("not done within %s, the \"timeout\" of the plugin configuration", r.conf.timeout))
	left := r.conf.timeout
	if r.refusal != nil {
		left -= time.Duration(r.refusal.Seconds * float64(time.Second))
	}
	limited, stop := context.WithTimeoutCause(ctx, left, cause)
	r.ctx = limited
	r.close = func() {
		stop()
		_ = output.Close() // lines were written as they came
	}
}

func newLog(c *conf, output io.Writer) hclog.Logger {
	level := hclog.LevelFromString(c.LogLevel)
	if level == hclog.NoLevel {
		level = hclog.Warn
	}
	return hclog.New(&hclog.LoggerOptions{Name: Name, Level: level, Output: output})
}

// kept is a log that outlives the request.
type kept struct{ io.Writer }

func (kept) Close() error { return nil }

// openLog opens the log file. Without one, and with an error, it returns that of the call.
func (c Call) openLog(path string) (io.WriteCloser, error) {
	if path == "" {
		return kept{c.Log}, nil
	}
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return kept{c.Log}, invalid(fmt.Errorf("logFile: %w", err))
	}
	return file, nil
}

// owner identifies the attachments of this conflist and interface among those of
// one container ID.
func (r *request) owner() string { return r.network() + r.args.IfName }

// network is the prefix of the owner of all attachments of this conflist.
func (r *request) network() string { return "cni/" + r.conf.Name + "/" }

// setup returns the request to the engine. It has no networks if the plugin is
// chained after others and the job selects none.
func (r *request) setup() (hook.Request, error) {
	args, err := parseArgs(r.args.Args)
	if err != nil {
		return hook.Request{}, err
	}
	s := hook.Request{ID: r.args.ContainerID, Netns: r.args.Netns, Owner: r.owner(), Fresh: r.refusal == nil || !r.refusal.Begun, Args: forwarded(args, r.conf)}
	if s.Identity, err = identity(args, r.conf, s.ID); err != nil {
		return s, err
	}
	if s.Networks, err = selected(args, r.conf); err != nil {
		return s, err
	}
	if s.Narrowing, err = narrowing(args, r.conf); err != nil {
		return s, err
	}
	if s.Primary = r.primary(); s.Primary == nil && s.Narrowing != (selection.Narrowing{}) {
		return s, refuse(types.ErrInvalidNetworkConfig, "ingress and egress: the main network is that of the plugins before this one, which narrow nothing: omit both, or use a conflist whose main network is allocnet's")
	}
	// A default network that the job selects itself is not attached twice.
	s.Defaults = slices.DeleteFunc(slices.Clone(r.conf.defaults), func(e selection.Element) bool {
		return slices.ContainsFunc(s.Networks, func(named selection.Element) bool { return named.Name == e.Name })
	})
	s.Ports = r.ports(s)
	return s, nil
}

// primary returns the main network with the capability arguments of the runtime;
// nil if the plugin is chained after others.
func (r *request) primary() *selection.Element {
	if r.conf.primary == nil {
		return nil
	}
	p, capabilities := *r.conf.primary, r.conf.RuntimeConfig
	p.Interface = r.args.IfName
	if len(capabilities.IPs) > 0 {
		p.IPs = capabilities.IPs
	}
	if capabilities.MAC != "" {
		p.MAC = capabilities.MAC
	}
	if capabilities.Bandwidth != nil {
		p.Bandwidth = capabilities.Bandwidth
	}
	if capabilities.GUID != "" {
		p.InfinibandGUID = capabilities.GUID
	}
	return &p
}

// ports returns the port mappings of the runtime. The label of a port is its number
// in the container: runtimes pass no labels. If the plugin is chained after others,
// those map the ports that no network names.
func (r *request) ports(s hook.Request) []portmap.Port {
	var ports []portmap.Port
	for _, m := range r.conf.RuntimeConfig.PortMappings {
		p := portmap.Port{HostPort: m.HostPort, To: m.ContainerPort, Protocol: m.Protocol, HostIP: m.HostIP}
		if p.To == 0 {
			p.To = p.HostPort
		}
		p.Label = strconv.Itoa(p.To)
		named := slices.ContainsFunc(slices.Concat(s.Networks, s.Defaults), func(e selection.Element) bool {
			return slices.Contains(e.Ports, p.Label)
		})
		if s.Primary != nil || named {
			ports = append(ports, p)
		}
	}
	return ports
}

func empty(s hook.Request) bool { return s.Primary == nil && len(s.Networks)+len(s.Defaults) == 0 }
