// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package cluster

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/internal/sandbox"
	"github.com/allocnet/allocnet/internal/sandbox/nomadagent"
)

// booted is the line with which a machine says that it can be used.
const booted = "booted"

// own are the paths of which each machine has its own. /etc/allocnet.d and those of /opt
// are made by the cluster.
var own = []string{"/run", "/var/lib", "/opt", "/etc/allocnet.d", "/etc/machine-id"}

// Machine is a server or a client of Nomad: a process tree in namespaces of its own, with
// directories that survive its end.
type Machine struct {
	Name    string
	Address netip.Addr
	bridge  string // of the sandbox, for the network of the agents
	gateway string // empty: none
	dir     string
	init    *exec.Cmd
	// running has the daemons by name. Tests ask for them while others are started.
	running sync.Map
	// killed is whether Nomad was killed on it.
	killed atomic.Bool
}

// on boots the machine and connects it to both networks of the cluster.
func (m *Machine) on() error {
	if err := m.prepare(); err != nil {
		return err
	}
	m.running.Clear()
	m.killed.Store(false)
	m.init = exec.Command("/proc/self/exe")
	m.init.Env = append(nomadagent.Environ(), machineDir+"="+m.dir)
	m.init.Stderr = os.Stderr
	m.init.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNET | unix.CLONE_NEWNS | unix.CLONE_NEWPID}
	out, err := m.init.StdoutPipe()
	if err != nil {
		return err
	}
	if err := m.init.Start(); err != nil {
		return err
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || strings.TrimSpace(line) != booted {
		return fmt.Errorf("%s does not boot: %q, %w", m.Name, line, err)
	}
	if err := errors.Join(m.connect(management, m.bridge), m.connect(wire, wire)); err != nil {
		return err
	}
	return m.addressed()
}

// prepare makes the directories of a new machine, and those that do not survive a boot.
func (m *Machine) prepare() error {
	if err := os.RemoveAll(filepath.Join(m.dir, "run")); err != nil {
		return err
	}
	for _, path := range own {
		if path == "/etc/machine-id" {
			continue
		}
		if err := os.MkdirAll(filepath.Join(m.dir, path), 0o755); err != nil {
			return err
		}
	}
	id := filepath.Join(m.dir, "etc/machine-id")
	if _, err := os.Stat(id); err == nil {
		return nil
	}
	return os.WriteFile(id, []byte(randomHex()+"\n"), 0o444)
}

// connect makes the machine's interface of a network. The other end is in the bridge.
func (m *Machine) connect(network, bridge string) error {
	end := m.end(network)
	return sandbox.RunAll(
		"ip link add "+end+" type veth peer name "+network+" netns "+strconv.Itoa(m.init.Process.Pid),
		"ip link set "+end+" master "+bridge+" up",
		m.inside("ip link set lo up"),
		m.inside("ip link set "+network+" up"),
	)
}

// addressed gives the machine its address, and the route to the router.
func (m *Machine) addressed() error {
	commands := []string{m.inside("ip address add " + m.Address.String() + "/24 dev " + management)}
	if m.gateway != "" {
		commands = append(commands, m.inside("ip route add default via "+m.gateway))
	}
	return sandbox.RunAll(commands...)
}

// end is the name of the bridge's port.
func (m *Machine) end(network string) string { return m.Name + "-" + network }

func (m *Machine) inside(command string) string {
	return fmt.Sprintf("nsenter --target %d --net --mount --pid %s", m.init.Process.Pid, command)
}

// Renumber gives the machine another address in place of its own. Nomad does not notice until it
// is started again.
func (m *Machine) Renumber(address netip.Addr) error {
	m.Address = address
	if err := sandbox.RunAll(m.inside("ip address flush dev " + management + " scope global")); err != nil {
		return err
	}
	return m.addressed()
}

// Off ends the machine as a loss of power does, with all its namespaces.
func (m *Machine) Off() {
	if m.init == nil {
		return
	}
	_ = m.init.Process.Kill()
	_ = m.init.Wait() // killed
	m.init = nil
	for name := range m.running.Range {
		_ = m.awaitExit(name.(string)) // the namespace's end kills it
	}
	for _, network := range []string{management, wire} {
		_ = sandbox.RunAll("ip link delete " + m.end(network)) // the kernel may have removed it with the namespace
	}
}

// IsOn reports whether the machine has been booted.
func (m *Machine) IsOn() bool { return m.init != nil }

// Unplug takes the machine off the management network, and Plug connects it again.
func (m *Machine) Unplug() error { return sandbox.RunAll("ip link set " + m.end(management) + " down") }

// Plug undoes Unplug.
func (m *Machine) Plug() error { return sandbox.RunAll("ip link set " + m.end(management) + " up") }

// Path is the path outside of a file of the machine.
func (m *Machine) Path(path string) string { return filepath.Join(m.dir, path) }

// Wipe removes directories of the machine with their contents, such as /var/lib/nomad.
func (m *Machine) Wipe(paths ...string) error {
	var errs []error
	for _, path := range paths {
		errs = append(errs, os.RemoveAll(m.Path(path)))
	}
	return errors.Join(errs...)
}

// Write writes a file of the machine.
func (m *Machine) Write(path, text string) error {
	if err := os.MkdirAll(filepath.Dir(m.Path(path)), 0o755); err != nil {
		return err
	}
	return os.WriteFile(m.Path(path), []byte(text), 0o600)
}

// Command is a command on the machine.
func (m *Machine) Command(words ...string) *exec.Cmd {
	cmd := exec.Command("nsenter", append([]string{"--target", strconv.Itoa(m.init.Process.Pid), "--net", "--mount", "--pid"}, words...)...)
	cmd.Env = append(nomadagent.Environ(), "PATH="+programs+":"+os.Getenv("PATH"))
	return cmd
}

// Run runs a command on the machine and returns what it prints.
func (m *Machine) Run(words ...string) (string, error) {
	out, err := output(m.Command(words...))
	if err != nil {
		return string(out), fmt.Errorf("%s: %s: %w: %s", m.Name, strings.Join(words, " "), err, out)
	}
	return string(out), nil
}

// output runs a command and returns what it prints. One that does not end within the limit
// of Await is killed.
func output(cmd *exec.Cmd) ([]byte, error) {
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	cmd.WaitDelay = time.Second // of a child of nsenter, which has the output too
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	kill := time.AfterFunc(limit, func() { _ = cmd.Process.Kill() })
	err := cmd.Wait()
	if !kill.Stop() {
		err = fmt.Errorf("has not ended within %s: %w", limit, err)
	}
	return out.Bytes(), err
}
