// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package differential

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/netip"

	"github.com/containernetworking/cni/libcni"
	"github.com/containernetworking/cni/pkg/invoke"

	"github.com/allocnet/allocnet/cniconf"
	"github.com/allocnet/allocnet/internal/inprocess"
	"github.com/allocnet/allocnet/internal/inprocess/plugin"
	"github.com/allocnet/allocnet/internal/sandbox"
)

// executor executes one verb for all networks of an allocation, and returns what that gave.
type executor func(verb string, attachments []attachment) outcomes

// attachment is a network of an allocation.
type attachment struct {
	list    *libcni.NetworkConfigList
	runtime *libcni.RuntimeConf
}

// Where the attachments of a configuration are.
const (
	containerID   = "container"
	namespaceName = "sandbox"
	namespacePath = "/run/netns/" + namespaceName
	cacheDir      = "/var/lib/cni"
)

func attachments(c configuration) ([]attachment, error) {
	var all []attachment
	for i, n := range c.Networks {
		list, err := cniconf.ParseList([]byte(n.List))
		if err != nil {
			return nil, err
		}
		runtime := &libcni.RuntimeConf{
			ContainerID: cmp.Or(n.ContainerID, containerID), NetNS: namespacePath,
			IfName: cmp.Or(n.IfName, fmt.Sprintf("eth%d", i)), Args: n.Args,
		}
		if n.Capabilities != "" {
			if err := json.Unmarshal([]byte(n.Capabilities), &runtime.CapabilityArgs); err != nil {
				return nil, err
			}
		}
		all = append(all, attachment{list, runtime})
	}
	return all, nil
}

// call executes one verb with libcni.
func (a attachment) call(verb string, exec invoke.Exec) (string, error) {
	ctx := context.Background()
	cni := libcni.NewCNIConfigWithCacheDir([]string{sandbox.PluginDir()}, cacheDir, exec)
	switch verb {
	case add:
		result, err := cni.AddNetworkList(ctx, a.list, a.runtime)
		if err != nil {
			return "", err
		}
		text, err := json.MarshalIndent(result, "", " ")
		return string(text), err
	case check:
		return "", cni.CheckNetworkList(ctx, a.list, a.runtime)
	case del:
		return "", cni.DelNetworkList(ctx, a.list, a.runtime)
	}
	return "", cni.GetStatusNetworkList(ctx, a.list)
}

// plugins executes the reference plugins, one network after another.
func plugins(verb string, attachments []attachment) outcomes {
	exec := &invoke.DefaultExec{RawExec: &invoke.RawExec{Stderr: io.Discard}}
	var gave outcomes
	for _, a := range attachments {
		result, err := a.call(verb, exec)
		gave = append(gave, outcome(result, err))
	}
	return gave
}

// inProcess executes the chains in this process, and commits their changes together. A DEL that
// failed has removed a part, as with plugins. CHECK is that of the plugins, of what was made in process: what allocnet compares itself is
// another thing (docs/differences.md).
func inProcess(verb string, attachments []attachment) outcomes {
	return executeInProcess(verb, attachments, func() *plugin.Isolation { return nil })
}

// apart is inProcess for attachments that are kept apart: ADD does the same in another order, and ends have names that are known before.
func apart(verb string, attachments []attachment) outcomes {
	return executeInProcess(verb, attachments, func() *plugin.Isolation {
		return &plugin.Isolation{
			End: fmt.Sprintf("veth%08x", rand.Uint32()), Guard: func(string) error { return nil }, Admit: func(string, string, []netip.Addr) error { return nil },
		}
	})
}

func executeInProcess(verb string, attachments []attachment, isolation func() *plugin.Isolation) outcomes {
	if verb == check {
		return plugins(verb, attachments)
	}
	results, errs := make([]string, len(attachments)), make([]error, len(attachments))
	var changes []*plugin.Changes
	var changed []int
	for i, a := range attachments {
		chain := &inprocess.Chain{}
		chain.Seams.Isolation = isolation()
		results[i], errs[i] = a.call(verb, chain)
		if errs[i] == nil || verb == del {
			changes, changed = append(changes, chain.Changes()), append(changed, i)
		}
	}
	for k, err := range plugin.Commit(context.Background(), nil, changes) {
		if errs[changed[k]] == nil {
			errs[changed[k]] = err
		}
	}
	gave := make(outcomes, len(attachments))
	for i := range attachments {
		gave[i] = outcome(results[i], errs[i])
	}
	return gave
}
