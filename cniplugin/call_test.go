// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package cniplugin

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/containernetworking/cni/pkg/skel"
	"github.com/containernetworking/cni/pkg/types"
)

// testCall is a call with a verb and no other variable.
func testCall(command string) Call {
	return Call{Getenv: func(name string) string { return map[string]string{"CNI_COMMAND": command}[name] }, Log: io.Discard}
}

// written returns the little that a function writes to one of the files of this process.
func written(t *testing.T, file **os.File, run func()) string {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	before := *file
	*file = w
	run()
	*file = before
	_ = w.Close()
	text, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// variables are those of a call.
var variables = []string{"CNI_COMMAND", "CNI_CONTAINERID", "CNI_NETNS", "CNI_IFNAME", "CNI_ARGS", "CNI_PATH", "CNI_NETNS_OVERRIDE"}

// bySkel makes a call as package skel of CNI does, in the variables and the files of this process.
func bySkel(t *testing.T, env map[string]string, config string, ran error) (printed, log string) {
	t.Helper()
	for _, name := range variables {
		os.Setenv(name, env[name])
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	_, err = io.WriteString(w, config)
	if err := errors.Join(err, w.Close()); err != nil {
		t.Fatal(err)
	}
	before := os.Stdin
	os.Stdin = r
	defer func() { os.Stdin = before }()
	run := func(*skel.CmdArgs) error { return ran }
	log = written(t, &os.Stderr, func() {
		printed = written(t, &os.Stdout, func() {
			failed := skel.PluginMainFuncsWithError(skel.CNIFuncs{Add: run, Del: run, Check: run, GC: run, Status: run}, supported, about)
			if failed != nil {
				_ = failed.Print()
			}
		})
	})
	return printed, log
}

// byCall makes a call, and returns what the program prints.
func byCall(t *testing.T, env map[string]string, config string, ran error) (printed, log string) {
	t.Helper()
	var lines bytes.Buffer
	c := Call{Getenv: func(name string) string { return env[name] }, Config: strings.NewReader(config), Log: &lines}
	stubs := map[string]verb{}
	for name, v := range verbs {
		stubs[name] = verb{v.since, func(context.Context, Call, *skel.CmdArgs) ([]byte, error) { return nil, ran }}
	}
	out, failed := c.serve(t.Context(), stubs)
	if failed != nil {
		return written(t, &os.Stdout, func() { _ = failed.Print() }), lines.String()
	}
	return string(out), lines.String()
}

// TestAsSkel: a call is refused as package skel refuses it, byte for byte.
func TestAsSkel(t *testing.T) {
	for _, name := range variables {
		t.Setenv(name, "") // restores it
	}
	full := map[string]string{"CNI_CONTAINERID": "a1", "CNI_NETNS": "/run/netns/none", "CNI_IFNAME": "eth0", "CNI_PATH": "/opt/cni/bin"}
	with := func(changes ...string) map[string]string {
		env := map[string]string{}
		for name, value := range full {
			env[name] = value
		}
		for i := 0; i < len(changes); i += 2 {
			env[changes[i]] = changes[i+1]
		}
		return env
	}
	envs := []map[string]string{
		{}, with("CNI_CONTAINERID", ""), with("CNI_NETNS", ""), with("CNI_IFNAME", ""), with("CNI_PATH", ""), with("CNI_PATH", "", "CNI_NETNS", ""),
		with("CNI_CONTAINERID", "../a"), with("CNI_IFNAME", "a/b"), with("CNI_IFNAME", "a-name-of-17-bytes"), with("CNI_CONTAINERID", "/", "CNI_PATH", ""), with(),
		with("CNI_NETNS", "/proc/self/ns/net"), with("CNI_NETNS", "/proc/self/ns/net", "CNI_NETNS_OVERRIDE", "TRUE"), with("CNI_NETNS", "/proc/self/ns/net", "CNI_NETNS_OVERRIDE", "1"),
		with("CNI_NETNS", "/proc/self/ns/net", "CNI_NETNS_OVERRIDE", "yes"),
	}
	configs := []string{"", "{", "[]", `{}`, `{"name": "../m"}`, `{"name": 3}`, `{"name": "m"}`, `{"name": "m", "cniVersion": "a"}`, `{"name": "m", "cniVersion": 1}`}
	for _, version := range []string{"0.2.0", "0.3.0", "0.4.0", "1.0.0", "1.1.0", "1.1.1", "1.2.0", "2.0.0", "1.0.0.0", "1.x"} {
		configs = append(configs, fmt.Sprintf(`{"name": "m", "cniVersion": %q}`, version))
	}
	answers := []error{errors.New("ran"), types.NewError(7, "refused", "why"), fmt.Errorf("x: %w", types.NewError(11, "busy", "")), nil}
	i := 0
	for _, command := range []string{"ADD", "DEL", "CHECK", "GC", "STATUS", "VERSION", "", "add", "X"} {
		for _, env := range envs {
			env["CNI_COMMAND"] = command
			for _, config := range configs {
				i++
				ran := answers[i%len(answers)]
				if ran == nil && command == "ADD" && env["CNI_NETNS"] == "/proc/self/ns/net" {
					continue // ADD itself refuses it, see TestAdmitNetns
				}
				printed, log := byCall(t, env, config, ran)
				if wantPrinted, wantLog := bySkel(t, env, config, ran); printed != wantPrinted || log != wantLog {
					t.Errorf("%v, %s, %v:\n%q and %q, skel has\n%q and %q", env, config, ran, printed, log, wantPrinted, wantLog)
				}
			}
		}
	}
}

// TestUnreadable: a configuration that cannot be read is an error of I/O.
func TestUnreadable(t *testing.T) {
	c := testCall("GC")
	c.Getenv = func(name string) string { return map[string]string{"CNI_COMMAND": "GC", "CNI_PATH": "/x"}[name] }
	c.Config = iotest.ErrReader(errors.New("torn"))
	if _, failed := c.Run(t.Context()); failed == nil || failed.Code != types.ErrIOFailure || !strings.Contains(failed.Msg, "torn") {
		t.Errorf("%v", failed)
	}
}

// TestAddedArgs: what the caller of the plugin adds is in args.cni, beside what is there.
func TestAddedArgs(t *testing.T) {
	c := testCall("ADD")
	var refused error
	c.Args = func(context.Context) (map[string]json.RawMessage, error) {
		return map[string]json.RawMessage{argIdentity: json.RawMessage(`{"namespace": "prod"}`), "networks": json.RawMessage(`"storage"`)}, refused
	}
	args := &skel.CmdArgs{ContainerID: "a1", IfName: "eth0", Path: "/p", StdinData: fmt.Appendf(nil,
		`{"cniVersion": "1.0.0", "name": "multi", "type": "allocnet-cni", "primary": "web", "stateDir": %q, "args": {"cni": {"networks.b": {}}}}`, t.TempDir())}
	r, err := c.newRequest(t.Context(), args, true)
	if err != nil {
		t.Fatal(err)
	}
	defer r.close()
	s, err := r.setup()
	if err != nil || s.Identity.Namespace != "prod" || len(s.Networks) != 2 || r.conf.PluginDir != "/p" {
		t.Errorf("%+v, %v, plugins in %s", s, err, r.conf.PluginDir)
	}
	refused = errors.New("Nomad does not answer")
	if _, err := c.newRequest(t.Context(), args, true); !errors.Is(err, refused) {
		t.Errorf("%v, want that of Args", err)
	}
	args.StdinData = []byte(`{"cniVersion": "1.0.0", "name": "multi", "type": "allocnet-cni", "primary": 3}`)
	_, err = c.newRequest(t.Context(), args, true)
	requireError(t, err, types.ErrInvalidNetworkConfig, "primary")
}
