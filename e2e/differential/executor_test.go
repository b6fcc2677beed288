// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package differential

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/containernetworking/cni/libcni"
	"github.com/containernetworking/cni/pkg/invoke"
	"github.com/containernetworking/cni/pkg/types"

	"github.com/allocnet/allocnet/cniconf"
	"github.com/allocnet/allocnet/internal/inprocess"
	"github.com/allocnet/allocnet/internal/sandbox"
)

// executor executes one verb for all networks of an allocation, and returns what that gave.
type executor func(verb string, attachments []attachment) string

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
		runtime := &libcni.RuntimeConf{ContainerID: containerID, NetNS: namespacePath, IfName: fmt.Sprintf("eth%d", i), Args: n.Args}
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
func plugins(verb string, attachments []attachment) string {
	exec := &invoke.DefaultExec{RawExec: &invoke.RawExec{Stderr: io.Discard}}
	var outcomes []string
	for _, a := range attachments {
		result, err := a.call(verb, exec)
		outcomes = append(outcomes, outcome(result, err))
	}
	return strings.Join(outcomes, "\n")
}

// inProcess executes the chains in this process, and commits their changes together. A DEL that
// failed has removed a part, as with plugins.
func inProcess(verb string, attachments []attachment) string {
	results, errs := make([]string, len(attachments)), make([]error, len(attachments))
	var changes []*inprocess.Changes
	var changed []int
	for i, a := range attachments {
		chain := &inprocess.Chain{}
		results[i], errs[i] = a.call(verb, chain)
		if errs[i] == nil || verb == del {
			changes, changed = append(changes, chain.Changes()), append(changed, i)
		}
	}
	for k, err := range inprocess.Commit(context.Background(), nil, changes) {
		if errs[changed[k]] == nil {
			errs[changed[k]] = err
		}
	}
	outcomes := make([]string, len(attachments))
	for i := range attachments {
		outcomes[i] = outcome(results[i], errs[i])
	}
	return strings.Join(outcomes, "\n")
}

// outcome describes a result or an error: by its code, because texts may be better than those
// of the plugins.
func outcome(result string, err error) string {
	var coded *types.Error
	switch {
	case err == nil:
		return "ok " + result
	case errors.As(err, &coded):
		return fmt.Sprintf("error with code %d%s%v", coded.Code, textMark, err)
	}
	return fmt.Sprintf("error%s%v", textMark, err)
}

// textMark separates the code of an error from its text, which is not compared.
const textMark = " # "
