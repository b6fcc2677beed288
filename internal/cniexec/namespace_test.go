// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package cniexec

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/containernetworking/cni/pkg/types"
	"github.com/containernetworking/cni/pkg/version"
)

// TestRunnerNamespace: a plugin gets the handle in all that it reads, and nothing that it says has it.
func TestRunnerNamespace(t *testing.T) {
	const path, handle = "/run/netns/a&b", "/proc/7/fd/9"
	for name, test := range map[string]struct {
		stdin, want, answer, result string
		err                         error
		fail                        string
	}{
		"result":          {`{"prevResult":{"interfaces":[{"sandbox":"/run/netns/a\u0026b"}]}}`, `{"prevResult":{"interfaces":[{"sandbox":"/proc/7/fd/9"}]}}`, `{"interfaces": [{"sandbox": "/proc/7/fd/9"}]}`, `{"interfaces": [{"sandbox": "/run/netns/a\u0026b"}]}`, nil, ""},
		"escaped":         {"{}", "{}", `{"sandbox": "\/proc\/7\/fd\/9", "x": "\u002fproc/7/fd/9", "y": "a\"/proc/7/fd/9"}`, `{"sandbox": "/run/netns/a\u0026b", "x": "/run/netns/a\u0026b", "y": "a\"/proc/7/fd/9"}`, nil, ""},
		"not escaped":     {`{"netns":"/run/netns/a&b"}`, `{"netns":"/proc/7/fd/9"}`, "{}", "{}", nil, ""},
		"other texts":     {`{"name":"/run/netns/a","x":"/run/netns/a\u0026bc"}`, `{"name":"/run/netns/a","x":"/run/netns/a\u0026bc"}`, `{"x":"/proc/7/fd/91"}`, `{"x":"/proc/7/fd/91"}`, nil, ""},
		"own error":       {"{}", "{}", "", "", types.NewError(104, "open /proc/7/fd/9", "at /proc/7/fd/9"), "open /run/netns/a&b; at /run/netns/a&b"},
		"no error object": {"{}", "{}", "", "", &ExecError{"p", "ADD", "no /proc/7/fd/9", errors.New("exit status 1")}, "plugin p: ADD: exit status 1: no /run/netns/a&b"},
		"reference":       {"{}", "{}", "", "", &referenceAnswer{types.NewError(11, "open /proc/7/fd/9", "")}, "open /run/netns/a&b"},
	} {
		exec := calledFunc(func(stdin string, environ []string) ([]byte, error) {
			if got := strings.Join(environ, " "); got != "CNI_COMMAND=ADD CNI_NETNS=/proc/7/fd/9 CNI_ARGS=/run/netns/a&b" || stdin != test.want {
				t.Errorf("%s: called with %s %s", name, got, stdin)
			}
			return []byte(test.answer), test.err
		})
		r := &Runner{Exec: exec, Limit: time.Hour, Namespace: Namespace{Path: path, Handle: handle}}
		environ := []string{"CNI_COMMAND=ADD", "CNI_NETNS=" + path, "CNI_ARGS=" + path}
		got, err := r.ExecPlugin(t.Context(), "/x/p", []byte(test.stdin), environ)
		if err == nil && (test.fail != "" || string(got) != test.result) || err != nil && err.Error() != test.fail {
			t.Errorf("%s: %s, %v", name, got, err)
		}
		if environ[1] != "CNI_NETNS="+path {
			t.Errorf("%s: the caller's environment has %s", name, environ[1])
		}
	}
}

// calledFunc is an invoke.Exec in memory that sees what a plugin does.
type calledFunc func(stdin string, environ []string) ([]byte, error)

func (f calledFunc) ExecPlugin(_ context.Context, _ string, stdin []byte, environ []string) ([]byte, error) {
	return f(string(stdin), environ)
}

func (f calledFunc) FindInPath(plugin string, _ []string) (string, error) { return plugin, nil }

func (calledFunc) Decode([]byte) (version.PluginInfo, error) { return version.All, nil }
