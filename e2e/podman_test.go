// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/allocnet/allocnet/internal/sandbox"
)

// podmanConfig makes podman use CNI, and this host's directories.
const podmanConfig = `[network]
network_backend = "cni"
network_config_dir = %q
cni_plugin_dirs = [%s]
[engine]
cgroup_manager = "cgroupfs"
events_logger = "none"
runtime = "runc"
`

// groups is the directory of the container's control groups. A sandbox has no control
// groups of its own.
const groups = "/allocnet-test"

// removeGroups waits for the processes of podman, which end after it.
func removeGroups(t *testing.T) {
	t.Helper()
	sandbox.Eventually(t, "the control groups are removed", func() bool {
		return exec.Command("find", "/sys/fs/cgroup", "-depth", "-type", "d", "-path", "*"+groups+"*", "-delete").Run() == nil
	})
}

// containerConfig is the configuration of an agent in a container.
const containerConfig = `conf_dir    = %q
plugin_dirs = [%q, %q]
state_dir   = %q
socket {
  path = %q
}
multi {
  primary = "web"
  agent   = "require"
}
cni {
  chroot = "/host"
}
`

// TestContainerImage builds the image of the agent, without access to other images, and
// has the agent in a container execute the calls of the plugin.
func TestContainerImage(t *testing.T) {
	h := newHost(t)
	h.useDist()
	h.installPlugin()
	dir := t.TempDir()
	sandbox.WriteFile(t, dir+"/containers.conf", "[engine]\ncgroup_manager = \"cgroupfs\"\nevents_logger = \"none\"\nruntime = \"runc\"\n")
	t.Setenv("CONTAINERS_CONF", dir+"/containers.conf")
	if err := sandbox.Install(dir+"/bin", "allocnet"); err != nil {
		t.Fatal(err)
	}
	podman := newPodman(t, dir)
	podman("build", "--isolation", "chroot", "--tag", "allocnet", "--file", sandbox.Source(t, "../dist/container/Containerfile"), dir+"/bin")
	config := dir + "/agent.hcl"
	sandbox.WriteFile(t, config, fmt.Sprintf(containerConfig, h.conf, h.plugins, sandbox.PluginDir(), h.state, dir+"/socket/agent.sock"))
	sandbox.Run(t, "ip", "netns", "add", "demo")
	defer sandbox.Run(t, "ip", "netns", "delete", "demo")
	defer os.RemoveAll("/var/lib/containers") // the sandbox's, for podman's cache
	defer removeGroups(t)
	defer podman("rm", "--all", "--force", "--time", "5")
	podman("run", "--detach", "--privileged", "--ulimit", "nofile=1024:1024", "--ulimit", "nproc=1024:1024", "--cgroup-parent", groups,
		"--network", "host", "--pid", "host", "--volume", "/:/host:rslave", "--volume", os.TempDir()+":"+os.TempDir(),
		"--volume", config+":/etc/allocnet.d/agent.hcl:ro", "allocnet")
	sandbox.Eventually(t, "the agent has written the conflist", func() bool { _, err := os.Stat(h.conf + "/00-multi.conflist"); return err == nil })
	t.Setenv("PATH", sandbox.PluginDir()+":"+os.Getenv("PATH"))
	t.Setenv("NETCONFPATH", h.conf)
	t.Setenv("CNI_PATH", h.plugins+":"+sandbox.PluginDir())
	h.shell(`CNI_ARGS='IgnoreUnknown=true;networks=storage' cnitool add multi /run/netns/demo
ip -n demo -brief address show eth0 | grep 10.88.
ip -n demo -brief address show net1 | grep 10.89.
cnitool del multi /run/netns/demo`)
}

// newPodman returns a function that runs podman, with its files in a directory.
func newPodman(t *testing.T, dir string) func(args ...string) string {
	t.Helper()
	if _, err := exec.LookPath("podman"); err != nil {
		t.Fatal("podman is missing: run: make deps")
	}
	return func(args ...string) string {
		t.Helper()
		words := append([]string{"--root", dir + "/storage", "--runroot", dir + "/run", "--tmpdir", dir + "/tmp", "--storage-driver", "vfs"}, args...)
		out, err := exec.Command("podman", words...).CombinedOutput()
		if err != nil {
			t.Fatalf("podman %s: %v\n%s", strings.Join(args, " "), err, out)
		}
		return strings.TrimSpace(string(out))
	}
}

// TestPodman runs a container on the conflist that Nomad uses.
func TestPodman(t *testing.T) {
	h := newHost(t)
	h.useDist()
	h.installPlugin()
	h.must("conf", "generate", "web", "--networks", "storage,vlan@data0", "--alloc-dir", "none")
	dir := t.TempDir()
	dirs := fmt.Sprintf("%q, %q", h.plugins, sandbox.PluginDir())
	sandbox.WriteFile(t, dir+"/containers.conf", fmt.Sprintf(podmanConfig, h.conf, dirs))
	t.Setenv("CONTAINERS_CONF", dir+"/containers.conf")
	root := filepath.Join(dir, "rootfs")
	if err := sandbox.Install(root, "web"); err != nil {
		t.Fatal(err)
	}
	podman := newPodman(t, dir)
	id := podman("run", "--detach", "--security-opt", "seccomp=unconfined", "--ulimit", "nofile=1024:1024", "--ulimit", "nproc=1024:1024", "--cgroup-parent", groups, "--network", "multi", "--publish", "8080:80", "--rootfs", root, "/web", "serve", "podman")
	defer removeGroups(t)
	defer podman("rm", "--all", "--force", "--time", "0")
	id = id[strings.LastIndexByte(id, '\n')+1:]
	status := h.must("status", id)
	for _, iface := range []string{"eth0", "net1", "data0"} {
		if !strings.Contains(status, " "+iface+" ") {
			t.Errorf("no %s:\n%s", iface, status)
		}
	}
	text := ""
	sandbox.Eventually(t, "the program in the container answers on the published port", func() bool {
		answer, err := get("http://127.0.0.1:8080")
		text = answer
		return err == nil
	})
	if !strings.HasPrefix(text, "podman, to ") {
		t.Errorf("the published port answers %q", text)
	}
	podman("rm", "--force", "--time", "0", id)
	if o := h.allocnet("status", id); o.code != 3 {
		t.Errorf("after rm: exit code %d\n%s", o.code, o.stdout)
	}
}
