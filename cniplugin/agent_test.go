// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package cniplugin

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/containernetworking/cni/pkg/skel"
	"github.com/hashicorp/go-hclog"

	"github.com/allocnet/allocnet/agent/api"
)

// serveAgent answers each CNI call on a socket, and returns the socket's path.
func serveAgent(t *testing.T, status int, answer any) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "socket")
	listener, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == api.PathHealth {
			_, _ = w.Write([]byte("{}"))
			return
		}
		var call api.CNI
		if err := json.NewDecoder(r.Body).Decode(&call); err != nil || call.Env["CNI_CONTAINERID"] != "a1" || call.Env["CNI_NETNS_OVERRIDE"] != "1" || string(call.Config) != strings.ReplaceAll(stdin, " ", "") {
			t.Errorf("the agent got %+v, %v", call, err)
		}
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(answer)
	})}
	go server.Serve(listener)
	t.Cleanup(func() { server.Close() })
	return path
}

// hungAgent returns the path of a socket whose agent accepts connections, and never answers.
func hungAgent(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "socket")
	listener, err := net.Listen("unix", path) // the kernel accepts
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	return path
}

// TestHungAgent: the plugin has time left to do the work itself where it may, and where it may not it waits
// for the agent.
func TestHungAgent(t *testing.T) {
	own := errors.New("the verb ran")
	for _, test := range []struct {
		mode, verb string
		ran        bool
	}{
		{prefer, "ADD", true}, {prefer, "DEL", true}, {require, "DEL", true}, {require, "GC", true}, {require, "ADD", false},
	} {
		ctx, stop := context.WithTimeout(t.Context(), 2*time.Second)
		defer stop()
		r := &request{ctx: ctx, log: hclog.NewNullLogger(), conf: &conf{Agent: &agentConf{Socket: hungAgent(t), Mode: test.mode}}, args: &skel.CmdArgs{StdinData: []byte(stdin)}}
		r.command = test.verb
		err := r.dispatch(func(r *request) error {
			if r.ctx.Err() != nil {
				t.Errorf("%s %s: the verb has no time", test.mode, test.verb)
			}
			return own
		})
		if errors.Is(err, own) != test.ran {
			t.Errorf("%s %s: %v, want that the verb ran: %v", test.mode, test.verb, err, test.ran)
		}
	}
}

// TestUnanswered: an agent that ends while it has a call may have attached the container. The plugin then takes
// what is set up as it would; without an agent that is an error.
func TestUnanswered(t *testing.T) {
	path := filepath.Join(t.TempDir(), "socket")
	listener, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != api.PathHealth {
			panic(http.ErrAbortHandler) // it ends the connection
		}
		_, _ = w.Write([]byte("{}"))
	})}
	go server.Serve(listener)
	t.Cleanup(func() { server.Close() })
	for socket, fresh := range map[string]bool{path: false, filepath.Join(t.TempDir(), "none"): true} {
		r := &request{ctx: t.Context(), log: hclog.NewNullLogger(), conf: &conf{Agent: &agentConf{Socket: socket}}, args: &skel.CmdArgs{StdinData: []byte(stdin)}}
		err := r.dispatch(func(r *request) error {
			s, err := r.setup()
			if s.Fresh != fresh {
				t.Errorf("%s: fresh is %t", socket, s.Fresh)
			}
			return err
		})
		if err != nil {
			t.Error(err)
		}
	}
}

func TestDispatch(t *testing.T) {
	own := errors.New("the verb ran")
	refused := api.Error{Code: 7, Msg: "unknown network"}
	for name, test := range map[string]struct {
		socket   string
		mode     string
		verb     string // default: ADD
		ended    bool
		code     uint // of a CNI error; 0: the verb ran
		noError  bool
		printed  string
		disabled bool
	}{
		"no agent configured":             {disabled: true},
		"delegated":                       {socket: serveAgent(t, 200, map[string]string{"cniVersion": "1.0.0"}), noError: true, printed: `{"cniVersion":"1.0.0"}`},
		"refused":                         {socket: serveAgent(t, 422, refused), code: 7},
		"refused, required":               {socket: serveAgent(t, 422, refused), mode: require, code: 7},
		"overloaded":                      {socket: serveAgent(t, 503, api.Error{Code: 11}), mode: prefer},
		"overloaded, required":            {socket: serveAgent(t, 503, api.Error{Code: 11}), mode: require, code: 11},
		"no plugin":                       {socket: serveAgent(t, 501, api.Error{Code: 2})},
		"access denied":                   {socket: serveAgent(t, 403, api.Error{Code: 102})},
		"access denied, required":         {socket: serveAgent(t, 403, api.Error{Code: 102}), mode: require, code: 11},
		"no agent":                        {socket: filepath.Join(t.TempDir(), "none")},
		"no agent, required":              {socket: filepath.Join(t.TempDir(), "none"), mode: require, code: 11},
		"no agent, required for STATUS":   {socket: filepath.Join(t.TempDir(), "none"), mode: require, verb: "STATUS", code: 11},
		"no agent for DEL, required":      {socket: filepath.Join(t.TempDir(), "none"), mode: require, verb: "DEL"},
		"overloaded at GC, required":      {socket: serveAgent(t, 503, api.Error{Code: 11}), mode: require, verb: "GC"},
		"refused DEL":                     {socket: serveAgent(t, 422, refused), mode: require, verb: "DEL", code: 7},
		"the call's deadline has expired": {socket: filepath.Join(t.TempDir(), "none"), ended: true, code: 999},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			if test.ended {
				stop()
			}
			r := &request{
				ctx: ctx, log: hclog.NewNullLogger(), conf: &conf{},
				args: &skel.CmdArgs{ContainerID: "a1", NetnsOverride: "1", StdinData: []byte(stdin)},
			}
			if !test.disabled {
				r.conf.Agent = &agentConf{Socket: test.socket, Mode: test.mode}
			}
			r.command = cmp.Or(test.verb, "ADD")
			err := r.dispatch(func(*request) error { return own })
			printed := r.printed.String()
			switch {
			case test.noError:
				if err != nil || printed != test.printed {
					t.Errorf("printed %q, error %v, want %q", printed, err, test.printed)
				}
			case test.code == 0:
				if !errors.Is(err, own) {
					t.Errorf("error %v: the verb did not run", err)
				}
			case errors.Is(err, own):
				t.Error("the verb ran")
			case test.ended:
				if !errors.Is(err, context.Canceled) {
					t.Errorf("error %v, want that of the context", err)
				}
			default:
				requireError(t, err, test.code)
			}
		})
	}
}
