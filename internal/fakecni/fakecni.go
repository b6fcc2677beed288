// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Package fakecni is a CNI plugin that fails on demand, for faults that real plugins do
// not produce on demand.
//
// A test binary becomes the plugin: its TestMain calls Main first, and Install
// puts a link to it into a plugin directory. The plugin's behaviour is in its
// configuration, under the key "fake".
package fakecni

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/containernetworking/cni/pkg/types"
	"golang.org/x/sys/unix"
)

// Type is the plugin's name.
const Type = "fakecni"

// Script is the plugin's behaviour by verb. The default is to succeed.
type Script struct {
	// Log is a file that gets a line for each call, as "VERB CNI_IFNAME", or
	// "GC" and the valid attachments in JSON.
	Log string `json:"log,omitempty"`
	// Record is a file that gets a line for each call: a Call in JSON.
	Record string `json:"record,omitempty"`
	// Verbs has the keys "ADD", "DEL" and so on.
	Verbs map[string]Behaviour `json:"verbs,omitempty"`
}

// Behaviour is that of one verb, in the order of the fields.
type Behaviour struct {
	// Mark is a file that is created when the call begins.
	Mark string `json:"mark,omitempty"`
	// Await is a file that the call waits for.
	Await string `json:"await,omitempty"`
	// Hang keeps the call, and a child of it, asleep for ever.
	Hang bool `json:"hang,omitempty"`
	// Signal kills the plugin.
	Signal int `json:"signal,omitempty"`
	// Output is printed instead of a result, Repeat times.
	Output string `json:"output,omitempty"`
	Repeat int    `json:"repeat,omitempty"`
	// Code and Msg are the CNI error to fail with; code 0 does not fail. With Counter, "#" in
	// Msg is the number of the call.
	Code uint   `json:"code,omitempty"`
	Msg  string `json:"msg,omitempty"`
	// FailTimes makes only the first calls fail, counted in the file Counter.
	// 0: all of them.
	FailTimes int    `json:"failTimes,omitempty"`
	Counter   string `json:"counter,omitempty"`
}

// Call is what a caller gave the plugin.
type Call struct {
	// Env has the variables CNI_*.
	Env   map[string]string
	Input map[string]any
}

// Main acts as the plugin when the program was called as one, and returns
// otherwise.
func Main() {
	name := filepath.Base(os.Args[0])
	if name == Type || os.Getenv("CNI_COMMAND") != "" && !strings.HasSuffix(name, ".test") {
		os.Exit(run())
	}
}

// Install puts the plugin into a plugin directory.
func Install(t testing.TB, dir string) {
	t.Helper()
	InstallAs(t, dir, Type)
}

// InstallAs puts the plugin into a plugin directory in place of another one.
func InstallAs(t testing.TB, dir, name string) {
	t.Helper()
	self, err := os.Executable()
	if err == nil {
		err = os.Symlink(self, filepath.Join(dir, name))
	}
	if err != nil {
		t.Fatalf("install %s: %v", name, err)
	}
}

func run() int {
	verb := os.Getenv("CNI_COMMAND")
	input, err := io.ReadAll(os.Stdin)
	if err != nil {
		return fail(types.ErrIOFailure, err.Error())
	}
	var conf struct {
		CNIVersion string          `json:"cniVersion"`
		Fake       Script          `json:"fake"`
		PrevResult json.RawMessage `json:"prevResult"`
		Valid      json.RawMessage `json:"cni.dev/valid-attachments"`
	}
	if err := json.Unmarshal(input, &conf); err != nil {
		return fail(types.ErrDecodingFailure, err.Error())
	}
	if verb == "VERSION" {
		fmt.Println(`{"cniVersion":"1.1.0","supportedVersions":["0.3.0","0.3.1","0.4.0","1.0.0","1.1.0"]}`)
		return 0
	}
	if (verb == "ADD" || verb == "CHECK") && os.Getenv("CNI_NETNS") == "" {
		return fail(types.ErrInvalidEnvironmentVariables, "required env variables [CNI_NETNS] missing")
	}
	if conf.Fake.Log != "" {
		appendTo(conf.Fake.Log, verb+" "+os.Getenv("CNI_IFNAME")+string(conf.Valid)+"\n")
	}
	if conf.Fake.Record != "" {
		record(conf.Fake.Record, input)
	}
	if code, ended := behave(conf.Fake.Verbs[verb]); ended {
		return code
	}
	if verb == "ADD" {
		if conf.PrevResult == nil {
			conf.PrevResult = json.RawMessage(fmt.Sprintf(`{"cniVersion":%q,"interfaces":[],"ips":[]}`, conf.CNIVersion))
		}
		fmt.Println(string(conf.PrevResult))
	}
	return 0
}

// behave follows the script; ended tells whether that ends the call.
func behave(b Behaviour) (code int, ended bool) {
	if b.Mark != "" {
		appendTo(b.Mark, "begun\n")
	}
	for b.Await != "" && !present(b.Await) {
		time.Sleep(time.Millisecond)
	}
	if b.Hang {
		_ = exec.Command("sleep", "infinity").Run()
	}
	if b.Signal != 0 {
		_ = unix.Kill(os.Getpid(), unix.Signal(b.Signal))
		select {}
	}
	if b.Output != "" {
		fmt.Print(strings.Repeat(b.Output, max(1, b.Repeat)))
		return 0, true
	}
	if b.Code == 0 {
		return 0, false
	}
	if b.Counter != "" {
		count := calls(b.Counter)
		if b.FailTimes > 0 && count > b.FailTimes {
			return 0, false
		}
		b.Msg = strings.ReplaceAll(b.Msg, "#", strconv.Itoa(count))
	}
	return fail(b.Code, b.Msg), true
}

// record appends the call to a file.
func record(path string, input []byte) {
	call := Call{Env: map[string]string{}}
	for _, pair := range os.Environ() {
		if key, value, _ := strings.Cut(pair, "="); strings.HasPrefix(key, "CNI_") {
			call.Env[key] = value
		}
	}
	err := json.Unmarshal(input, &call.Input)
	line, encoded := json.Marshal(call)
	if err != nil || encoded != nil {
		panic(errors.Join(err, encoded))
	}
	appendTo(path, string(line)+"\n")
}

func fail(code uint, msg string) int {
	_ = json.NewEncoder(os.Stdout).Encode(map[string]any{"cniVersion": "1.0.0", "code": code, "msg": msg})
	return 1
}

// calls counts this call.
func calls(path string) int {
	appendTo(path, ".")
	data, err := os.ReadFile(path)
	if err != nil {
		panic(err)
	}
	return len(data)
}

func appendTo(path, text string) {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err == nil {
		_, err = file.WriteString(text)
	}
	if err != nil {
		panic(err)
	}
	_ = file.Close() // written
}

func present(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
