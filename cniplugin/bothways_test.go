// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package cniplugin_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/allocnet/allocnet/agent"
	"github.com/allocnet/allocnet/cniplugin"
	"github.com/allocnet/allocnet/cniplugin/shim"
	"github.com/allocnet/allocnet/hook"
)

// serve returns the socket of an agent that carries out calls.
func serve(t *testing.T) string {
	t.Helper()
	engine, err := hook.NewEngine(hook.Config{StateDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(t.TempDir(), "run", "agent.sock")
	l, err := agent.Listen(socket, agent.Access{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- agent.New(agent.Config{CNI: &agent.Plugin{}}, engine).Serve(ctx, l) }()
	t.Cleanup(func() {
		stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return socket
}

// corpus returns the inputs that a fuzz target of this package has found.
func corpus(t *testing.T, target string) (inputs []string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("testdata", "fuzz", target, "*"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		_, quoted, _ := strings.Cut(strings.TrimSpace(string(data)), "(")
		input, err := strconv.Unquote(strings.TrimSuffix(quoted, ")"))
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		inputs = append(inputs, input)
	}
	return inputs
}

// outcome is what a runtime sees of a call.
type outcome struct {
	code    int
	printed string
}

// direct makes a call in this process, and prints as the program does.
func direct(t *testing.T, env map[string]string, config string) outcome {
	t.Helper()
	printed, failed := cniplugin.Call{Getenv: func(name string) string { return env[name] }, Config: strings.NewReader(config)}.Run(t.Context())
	if failed == nil {
		return outcome{0, string(printed)}
	}
	text, err := json.MarshalIndent(failed, "", "    ")
	if err != nil {
		t.Fatal(err)
	}
	return outcome{1, string(text)}
}

// byAgent has the agent make a call. It is false if the engine has to make it.
func byAgent(env map[string]string, config string) (outcome, bool) {
	var out bytes.Buffer
	delegated := true
	p := shim.Program{
		Getenv: func(name string) string { return env[name] }, Stdin: strings.NewReader(config), Stdout: &out,
		Become: func([]byte, ...string) error {
			delegated = false
			return errors.New("no engine")
		},
	}
	code := p.Run()
	return outcome{code, out.String()}, delegated
}

// TestBothWays: a runtime sees the same of a call, byte for byte, with the agent and without it.
func TestBothWays(t *testing.T) {
	first := regexp.MustCompile(`^\s*\{`)
	keys := fmt.Sprintf(`{"agent": {"socket": %q}, "confDir": %q, `, serve(t), t.TempDir())
	config := func(more string) string {
		return fmt.Sprintf(`%s"stateDir": %q, "cniVersion": "1.1.0", "name": "multi", "type": "allocnet-cni", %s}`, keys, t.TempDir(), more)
	}
	var configs []string
	for _, more := range slices.Sorted(maps.Keys(cniplugin.Mistakes)) {
		configs = append(configs, config(more))
	}
	for _, input := range corpus(t, "FuzzStdin") {
		configs = append(configs, first.ReplaceAllLiteralString(input, keys+fmt.Sprintf(`"stateDir": %q, `, t.TempDir())))
	}
	const plain = `"primary": "web"`
	configs = append(configs, config(plain), config(plain+`, "timeout": 5`), config("\n\n"+`"primary": [}`), config(plain+`, "cniVersion": "7"`), config(plain+`, "name": "../m"`),
		config(plain+`, "prevResult": {"cniVersion": "1.0.0"}`), config(`"delegates": [{"cniVersion": "1.1.0", "name": "main", "type": "bridge", "isGatway": true}]`))
	args := append(slices.Sorted(maps.Keys(cniplugin.ArgMistakes)), corpus(t, "FuzzArgs")...)
	compared := 0
	own := regexp.MustCompile(`"type":\s*"allocnet-cni"`)
	compare := func(command, args, config string, changes ...string) {
		if !own.MatchString(config) {
			return // the agent does the work of no other plugin
		}
		env := map[string]string{"CNI_COMMAND": command, "CNI_CONTAINERID": "a1", "CNI_NETNS": "/run/netns/none-such", "CNI_IFNAME": "eth0", "CNI_PATH": "/none", "CNI_ARGS": args}
		for i := 0; i < len(changes); i += 2 {
			env[changes[i]] = changes[i+1]
		}
		got, delegated := byAgent(env, config)
		if !delegated {
			return
		}
		compared++
		if want := direct(t, env, config); got != want {
			t.Errorf("%s %q with %s:\nby the agent %d %s\nwithout it   %d %s", command, args, config, got.code, got.printed, want.code, want.printed)
		}
	}
	for _, command := range []string{"ADD", "DEL", "STATUS", "GC"} {
		for _, config := range configs {
			compare(command, "IgnoreUnknown=true", config)
		}
		for _, name := range []string{"CNI_CONTAINERID", "CNI_NETNS", "CNI_IFNAME", "CNI_PATH"} {
			for _, value := range []string{"", "/", "a b", "/proc/self/ns/net"} {
				compare(command, "", config(plain), name, value)
			}
		}
	}
	for _, text := range args {
		compare("ADD", text, config(plain))
	}
	if compared < 150 {
		t.Errorf("%d calls are compared, want 150 at least", compared)
	}
}
