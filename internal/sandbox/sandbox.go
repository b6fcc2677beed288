// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Package sandbox is where the tests, the demo's checks and the benchmarks run: the real kernel
// and the real CNI plugins, in network, mount and PID namespaces of their own, with fresh /run and
// /var/lib. The machine's network, /run, /var/lib and processes are not touched, and several
// sandboxes do not see each other.
//
// The test binary executes itself once more in these namespaces, so that nothing outlives a
// sandbox. An end-to-end test takes a snapshot of links, addresses, routes, rules of all backends,
// queues, files and plugin processes, and the host must be like it afterwards.
package sandbox

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/internal/roottest"
)

// inside marks a process of a sandbox: with how far it has come and, until that is
// prepared, the mount namespace of the machine. A process that only lists its tests is listing.
const (
	inside  = roottest.Sandbox
	listing = "list"
)

// Main runs a program's tests in a sandbox and returns their exit code: the
// program is executed once more in fresh namespaces, the steps make there what
// the tests need, and run runs them. What the tests start ends with them.
func Main(run func() int, steps ...func() error) int { return enter(undivided, run, steps) }

// MainIfRoot is Main with root. Without, the tests run where the program is: those that need root
// require it.
func MainIfRoot(run func() int) int {
	if !roottest.IsRoot() {
		return run()
	}
	return Main(run)
}

// MainDivided is Main for tests that share nothing: each CPU runs a part of them, in a sandbox of its own.
func MainDivided(run func() int, steps ...func() error) int { return enter(divide, run, steps) }

func enter(divide func() ([][]string, error), run func() int, steps []func() error) int {
	stage, machine, _ := strings.Cut(os.Getenv(inside), " ")
	var code int
	var err error
	switch stage {
	case "":
		code, err = outside(divide)
	case "init":
		code, err = initProcess(machine)
	case listing:
		if value("list") == "" {
			panic("the tests would run on the machine")
		}
		return run()
	default:
		first := []func() error{prepare, uplink}
		if usesOwnIPAM() {
			first = append(first, InstallIPAM)
		}
		for _, step := range append(first, steps...) {
			if err := step(); err != nil {
				_, _ = fmt.Fprintln(os.Stderr, err)
				return 1
			}
		}
		return run()
	}
	if err != nil {
		hint := ""
		if errors.Is(err, fs.ErrPermission) {
			hint = " (it needs root)"
		}
		_, _ = fmt.Fprintf(os.Stderr, "enter the sandbox: %v%s\n", err, hint)
	}
	return code
}

// outside executes the program in sandboxes, each with a part of the tests.
func outside(divide func() ([][]string, error)) (int, error) {
	if err := checkTools(); err != nil {
		return 1, err
	}
	if err := readyPrograms(); err != nil {
		return 1, err
	}
	machine, err := os.Readlink("/proc/self/ns/mnt")
	if err != nil {
		return 1, err
	}
	parts, err := divide()
	if err != nil {
		return 1, err
	}
	log := testLog(value("testlogfile"))
	code, err := runParts(len(parts), os.Stdout, func(i int, output io.Writer) (int, error) {
		cmd := again("init "+machine, append(parts[i], log.of(i))...)
		if output != nil {
			cmd.Stdout, cmd.Stderr = output, output
		}
		return executeAside(cmd)
	})
	return code, errors.Join(err, log.join(len(parts)))
}

// runParts runs all parts at once, and returns the highest of their exit codes. What several print at once would be
// mixed up: the first has no output of its own, and that of the others follows.
func runParts(count int, stdout io.Writer, run func(part int, output io.Writer) (int, error)) (int, error) {
	codes, outputs := make([]int, count), make([]bytes.Buffer, count)
	var group errgroup.Group
	for i := range count {
		group.Go(func() (err error) {
			if i == 0 {
				codes[i], err = run(i, nil)
			} else {
				codes[i], err = run(i, &outputs[i])
			}
			return err
		})
	}
	err := group.Wait()
	for i := range outputs {
		_, _ = outputs[i].WriteTo(stdout) // there is no other place for it
	}
	return slices.Max(codes), err
}

// executeAside is execute with a directory for temporary files that ends with the command, however its
// processes have ended.
func executeAside(cmd *exec.Cmd) (int, error) {
	dir, err := os.MkdirTemp("", "allocnet-sandbox-")
	if err != nil {
		return 1, err
	}
	if err := os.Chmod(dir, os.ModeSticky|0o777); err != nil { // as /tmp
		return 1, errors.Join(err, os.RemoveAll(dir))
	}
	cmd.Env = append(cmd.Env, "TMPDIR="+dir)
	code, err := execute(cmd)
	return code, errors.Join(err, os.RemoveAll(dir))
}

// execute executes a command as the first process of new namespaces.
func execute(cmd *exec.Cmd) (int, error) {
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: unix.CLONE_NEWNET | unix.CLONE_NEWNS | unix.CLONE_NEWPID,
		Pdeathsig:  unix.SIGKILL,
	}
	runtime.LockOSThread() // Pdeathsig is about the thread
	return exitCode(cmd.Run())
}

// exitCode returns the exit code of a command, by what Run returned. One that was killed has 1.
func exitCode(err error) (int, error) {
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return max(exit.ExitCode(), 1), nil
	}
	if err != nil {
		return 1, err
	}
	return 0, nil
}

// initProcess is PID 1 of a sandbox: it starts the tests, and waits for every
// process that has lost its parent, as an init does.
func initProcess(machine string) (int, error) {
	if err := unix.Mount("", "/", "", unix.MS_PRIVATE|unix.MS_REC, ""); err != nil {
		return 1, fmt.Errorf("make mounts private: %w", err)
	}
	if err := unix.Mount("proc", "/proc", "proc", 0, ""); err != nil {
		return 1, fmt.Errorf("mount /proc: %w", err)
	}
	// A host is known by the name of its first process.
	if err := os.WriteFile("/proc/self/comm", []byte("init"), 0); err != nil {
		return 1, err
	}
	tests := again("entering " + machine)
	if err := tests.Start(); err != nil {
		return 1, err
	}
	for {
		var status unix.WaitStatus
		pid, err := unix.Wait4(-1, &status, 0, nil)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return 1, fmt.Errorf("wait for the tests: %w", err)
		case pid == tests.Process.Pid:
			return codeOf(status, os.Stderr), nil
		}
	}
}

// codeOf returns the exit code that a shell gives a process. One that a signal ended has printed no
// reason, so the reason is written here.
func codeOf(status unix.WaitStatus, log io.Writer) int {
	if status.Signaled() {
		_, _ = fmt.Fprintf(log, "the tests were ended by %s, which may be the kernel's when memory is short: %q\n", unix.SignalName(status.Signal()), os.Args)
		return 128 + int(status.Signal())
	}
	return status.ExitStatus()
}

// again is this program with further arguments, at a stage of the sandbox.
func again(stage string, further ...string) *exec.Cmd {
	cmd := exec.Command("/proc/self/exe", slices.Concat(os.Args[1:], further)...)
	cmd.Args[0] = os.Args[0]
	cmd.Env = append(os.Environ(), inside+"="+stage)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	return cmd
}

// prepare makes the namespaces of the process a sandbox.
func prepare() error {
	own, err := os.Readlink("/proc/self/ns/mnt")
	machine, entering := strings.CutPrefix(os.Getenv(inside), "entering ")
	if err != nil || !entering || own == machine {
		return errors.New("not in a sandbox: call sandbox.Main")
	}
	if err := os.Setenv(inside, roottest.Prepared); err != nil {
		return err
	}
	if err := hide(); err != nil {
		return err
	}
	if err := MountSys(); err != nil {
		return fmt.Errorf("mount /sys of the new namespace: %w", err)
	}
	if err := ResetSysctls(); err != nil {
		return err
	}
	return errors.Join(RunAll("ip link set lo up", "sysctl -qw net.ipv4.ip_forward=1"), askForFamilies())
}

// askForFamilies has package net find out where lo is up whether a socket can be of both families. It finds that out once for a process,
// where that first listens at no address: with lo down it would take it for impossible, and listen with IPv4 alone from then on.
func askForFamilies() error {
	l, err := net.Listen("tcp", ":0")
	if err != nil {
		return err
	}
	return l.Close()
}

// MountSys mounts the sysfs of the new network namespace, and in it the control
// groups as they were: a Nomad agent wants them.
func MountSys() error {
	const groups, aside = "/sys/fs/cgroup", "/run/cgroup"
	if err := os.Mkdir(aside, 0o755); err != nil {
		return err
	}
	if err := unix.Mount(groups, aside, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return err
	}
	if err := unix.Mount("sysfs", "/sys", "sysfs", 0, ""); err != nil {
		return err
	}
	if err := unix.Mount(aside, groups, "", unix.MS_MOVE, ""); err != nil {
		return err
	}
	return os.Remove(aside)
}

// RunAll runs commands, whose words are divided by blanks, until one fails.
func RunAll(commands ...string) error {
	for _, command := range commands {
		words := strings.Fields(command)
		if out, err := exec.Command(words[0], words[1:]...).CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w: %s", command, err, out)
		}
	}
	return nil
}

func checkTools() error {
	for _, name := range []string{"ip", "tc", "iptables-save", "ip6tables-save", "nft", "conntrack"} {
		if _, err := exec.LookPath(name); err != nil {
			return fmt.Errorf("%s is missing: run: make deps", name)
		}
	}
	for _, name := range []string{"bridge", "ptp", "macvlan", "host-local", "static", "portmap", "firewall"} {
		if _, err := os.Stat(filepath.Join(PluginDir(), name)); err != nil {
			return fmt.Errorf("the CNI plugin %s is missing: run: make tools", name)
		}
	}
	return nil
}

// Root returns the directory of the module.
func Root() string {
	dir, err := os.Getwd()
	for err == nil && dir != "/" {
		if _, err := os.Stat(filepath.Join(dir, "GNUmakefile")); err == nil {
			return dir
		}
		dir = filepath.Dir(dir)
	}
	return "."
}

// Executor is the environment variable of allocnet's commands, for tests that call the engine
// or its plugin: what executes networks, empty for the default.
func Executor() string { return os.Getenv(executorVariable) }

const executorVariable = "ALLOCNET_EXECUTOR"

// PluginDir returns ReferenceDir, or the directory with another version of the CNI plugins that
// `make test-cni` names in the environment.
func PluginDir() string { return cmp.Or(os.Getenv(pluginsVariable), ReferenceDir()) }

const pluginsVariable = "ALLOCNET_TEST_CNI"

// ReferenceDir returns where `make tools` puts the CNI plugins whose work package inprocess does.
func ReferenceDir() string { return filepath.Join(Root(), "build", "cni", "bin") }
