// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Package shim is allocnet-cni as a runtime executes it: it has the agent carry out a call, if the
// configuration says so, and else becomes the program that does, in the same process. It starts for
// each call, and so links neither the engine nor an HTTP client.
package shim

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/internal/memfile"
)

// Program is the plugin as a process.
type Program struct {
	// Getenv returns the variables of the call; an empty one is not set.
	Getenv func(name string) string
	// Stdin has the plugin configuration.
	Stdin io.Reader
	// Stdout gets what the plugin prints.
	Stdout io.Writer
	// Become replaces this program by the engine, with standard input if it is not nil, and returns only
	// an error.
	Become func(stdin []byte, arguments ...string) error
}

// Instead is the argument of the engine before that of Refusal.
const Instead = "instead-of-agent"

// longestReason is what is told of a reason: the kernel bounds arguments.
const longestReason = 4 << 10

// Refusal is why the agent did not carry out a call that the configuration has delegated to it.
type Refusal struct {
	Reason string `json:"reason"`
	// Begun is whether the agent has begun the call, and may have done all of it.
	Begun bool `json:"begun"`
	// Seconds of the call's time have gone by.
	Seconds float64 `json:"seconds"`
}

// delegated are the verbs that the agent carries out. CHECK needs only the record.
var delegated = []string{"ADD", "DEL", "GC", "STATUS"}

// Run makes a call, and returns the exit code.
func (p Program) Run() (code int) {
	began := time.Now()
	if !slices.Contains(delegated, p.Getenv("CNI_COMMAND")) {
		return p.fail(p.Become(nil))
	}
	config, err := io.ReadAll(p.Stdin)
	if err != nil {
		return p.print(failure{Code: 5, Msg: fmt.Sprintf("error reading from stdin: %v", err)})
	}
	conf := conf{limit: time.Minute}
	if err := conf.read(config); err != nil || conf.Agent == nil { // the engine says what is wrong
		return p.fail(p.Become(config))
	}
	a := agent{socket: conf.Agent.Socket, limit: conf.limit, optional: !Requires(conf.Agent.Mode, p.Getenv("CNI_COMMAND"))}
	answer, refusal := a.call(p.Getenv, config)
	if refusal == nil {
		return p.answer(answer)
	}
	refusal.Reason = refusal.Reason[:min(len(refusal.Reason), longestReason)]
	refusal.Seconds = time.Since(began).Seconds()
	argument, err := json.Marshal(refusal)
	if err != nil {
		return p.fail(err)
	}
	return p.fail(p.Become(config, Instead, string(argument)))
}

// conf is what is read of the plugin configuration; package cniplugin has all of it.
type conf struct {
	Timeout string `json:"timeout"`
	Agent   *struct {
		Socket string `json:"socket"`
		Mode   string `json:"mode"`
	} `json:"agent"`
	limit time.Duration
}

func (c *conf) read(config []byte) error {
	if err := json.Unmarshal(config, c); err != nil {
		return err
	}
	if limit, err := time.ParseDuration(c.Timeout); err == nil && limit > 0 {
		c.limit = limit
	}
	return nil
}

// Require is the mode of an agent in which a call fails that the agent does not carry out, unless it is one of agentless.
const Require = "require"

// agentless are the verbs that work from the record, and never require the agent: Nomad
// calls DEL once, and then deletes the namespace.
var agentless = []string{"DEL", "GC"}

// Requires reports whether a call fails that the agent does not carry out.
func Requires(mode, command string) bool {
	return mode == Require && !slices.Contains(agentless, command)
}

// failure is the error object of the CNI specification.
type failure struct {
	Code    uint   `json:"code"`
	Msg     string `json:"msg"`
	Details string `json:"details,omitempty"`
}

// answer prints what the agent says that the plugin prints.
func (p Program) answer(a answer) int {
	if !a.done() {
		return p.print(a.failed)
	}
	if _, err := p.Stdout.Write(a.body); err != nil {
		return 1
	}
	return 0
}

func (p Program) fail(err error) int { return p.print(failure{Code: 999, Msg: err.Error()}) }

// print prints an error as the library of CNI does.
func (p Program) print(failed failure) int {
	text, err := json.MarshalIndent(failed, "", "    ")
	if err == nil {
		_, _ = p.Stdout.Write(text) // no other output is left
	}
	return 1
}

// Engine is the program that carries out calls in its own process.
const Engine = "allocnet-cni-engine"

// libexecDir is where this build has the engine: packages have it there, and make build links in its own directory.
// So a plugin that was copied by itself finds it.
var libexecDir = "/opt/cni/bin"

// Become is Program.Become. The engine is looked for beside this program, then where the runtime has its
// plugins, then where the build has it.
func Become(stdin []byte, arguments ...string) error {
	own, err := os.Executable()
	if err != nil {
		return err
	}
	if stdin != nil {
		file, err := memfile.New(stdin)
		if err == nil {
			err = unix.Dup3(int(file.Fd()), 0, 0)
		}
		if err != nil {
			return fmt.Errorf("standard input of %s: %w", Engine, err)
		}
	}
	dirs := slices.Concat([]string{filepath.Dir(own)}, filepath.SplitList(os.Getenv("CNI_PATH")), []string{libexecDir})
	for _, dir := range slices.DeleteFunc(dirs, func(dir string) bool { return dir == "" }) { // which would be the runtime's working directory
		err := unix.Exec(filepath.Join(dir, Engine), append([]string{Engine}, arguments...), os.Environ())
		if !errors.Is(err, unix.ENOENT) {
			return fmt.Errorf("execute %s: %w", filepath.Join(dir, Engine), err)
		}
	}
	return fmt.Errorf("%s is missing: install it beside %s, from the same release", filepath.Join(dirs[0], Engine), own)
}
