// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package driver

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/agent/client"
	"github.com/allocnet/allocnet/internal/sandbox"
	"github.com/allocnet/allocnet/internal/sandbox/nomadagent"
)

// startDocker starts a Docker daemon in the sandbox, and imports a pause image and a
// busybox image: the sandbox cannot pull any.
func startDocker(t *testing.T) {
	t.Helper()
	log, err := os.Create(dir + "/docker.log")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("dockerd", "--iptables=false", "--ip6tables=false", "--bridge=none", "--data-root", dir+"/docker", "--pidfile", dir+"/docker.pid")
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(unix.SIGTERM)
		_ = cmd.Wait() // it was signalled
		if t.Failed() {
			text, _ := os.ReadFile(log.Name())
			t.Logf("Docker's log, in part:\n%s", text[max(0, len(text)-2000):])
		}
	})
	sandbox.Eventually(t, "Docker answers", func() bool { return exec.Command("docker", "info").Run() == nil })
	root := t.TempDir()
	for _, sub := range []string{"bin", "etc", "tmp"} {
		if err := os.Mkdir(filepath.Join(root, sub), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	sandbox.Run(t, "cp", busybox, root+"/bin/busybox")
	sandbox.Run(t, "sh", "-c", "tar -C "+root+" -c . | docker import -c 'ENTRYPOINT [\"/bin/busybox\", \"sleep\", \"1000000\"]' - pause:1")
	sandbox.Run(t, "sh", "-c", "tar -C "+root+" -c . | docker import - busybox:1")
}

// docker is a job in the namespace of Docker's pause container.
func docker() job {
	return job{mode: "bridge", driver: "docker", script: serveDB, networks: map[string]string{"storage-net": `network "storage" {
		interface = "net1"
	}`}, services: `service {
        name         = "db-docker"
        provider     = "nomad"
        address_mode = "driver"
        port         = 5433
      }`}
}

func testDocker(a *agent) {
	alloc := a.run("docker", docker())[0]
	if ns := alloc.Setup().Netns; !strings.Contains(ns, "/docker/netns/") {
		a.Errorf("the namespace is %s, want Docker's", ns)
	}
	requireFirst(a, alloc)
	requireService(a, alloc, "db-docker")
	a.Stop("docker")
}

// testPauseKilled kills the pause container while Nomad's allocation runs.
func testPauseKilled(a *agent) {
	alloc := a.run("paused", docker())[0]
	d := startAllocnetAgent(a)
	defer d.stop()
	lease := bridgeLease(a, alloc.ID)
	d.collect()
	if _, err := os.Stat(lease); err != nil {
		a.Errorf("the lease of a running allocation: %v", err)
	}
	pause := strings.TrimSpace(sandbox.Run(a, "docker", "ps", "-q", "--filter", "name=nomad_init_"+alloc.ID))
	if pause == "" {
		a.Fatal("there is no pause container")
	}
	sandbox.Run(a, "docker", "kill", pause)
	if text := events(a.AwaitFailed("paused"), "storage-net"); !strings.Contains(text, "network namespace") || !strings.Contains(text, "is missing") {
		a.Errorf("the events do not say why:\n%s", text)
	}
	a.Stop("paused")
	// Nomad's own bridge network leaves a lease and a cached result: its DEL refuses
	// the path, at which Docker has left an empty file.
	if _, err := os.Stat(lease); err != nil {
		a.Fatalf("Nomad removes the lease itself now: %v", err)
	}
	d.collect()
	if left := sandbox.Run(a, "find", a.leases(), "/var/lib/cni/results", "-name", "*"+alloc.ID+"*"); left != "" {
		a.Errorf("left in libcni's cache:\n%s", left)
	}
	if _, err := os.Stat(lease); !os.IsNotExist(err) {
		a.Errorf("the lease after a round: %v", err)
	}
}

// leases returns the directory of the leases of Nomad's own bridge network.
func (a *agent) leases() string {
	if a.Has(nomadagent.LeasesInRun) {
		return "/run/cni/nomad"
	}
	return "/var/lib/cni/networks/nomad"
}

// bridgeLease returns an allocation's lease on Nomad's own bridge network, and makes
// it older than a set-up takes.
func bridgeLease(a *agent, id string) string {
	path := strings.TrimSpace(sandbox.Run(a, "grep", "-rl", "--", id, a.leases()))
	hourAgo := time.Now().Add(-time.Hour)
	if err := os.Chtimes(path, hourAgo, hourAgo); err != nil {
		a.Fatal(err)
	}
	return path
}

// allocnetAgent is an `allocnet agent` that reads the live set from Nomad.
type allocnetAgent struct {
	*agent
	client *client.Client
	stop   func()
}

func startAllocnetAgent(a *agent) allocnetAgent {
	sandbox.WriteFile(a, dir+"/allocnet.hcl", "conf_dir = \""+confDir+"\"\nplugin_dirs = [\""+sandbox.PluginDir()+"\"]\nnomad {\n}\nreconcile {\n interval = \"1h\"\n}\n")
	log, err := os.Create(filepath.Join(a.ArtifactDir(), "allocnet.log"))
	if err != nil {
		a.Fatal(err)
	}
	cmd := exec.Command(allocnet, "agent", "--config", dir+"/allocnet.hcl")
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		a.Fatal(err)
	}
	d := allocnetAgent{a, client.New(""), func() {
		_ = cmd.Process.Signal(unix.SIGTERM)
		if err := cmd.Wait(); err != nil {
			a.Errorf("allocnet agent: %v", err)
		}
		if text, _ := os.ReadFile(log.Name()); a.Failed() {
			a.Logf("the log of allocnet agent:\n%s", text)
		}
	}}
	a.Await("allocnet agent is ready", func() bool { return d.client.Ready(a.Context()) == nil })
	return d
}

// collect runs one round of the reconciler.
func (d allocnetAgent) collect() {
	d.Helper()
	if _, err := d.client.GC(d.Context()); err != nil {
		d.Errorf("a round of allocnet agent: %v", err)
	}
}
