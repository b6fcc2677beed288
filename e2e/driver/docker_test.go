// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package driver

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/internal/lab"
)

// startDocker starts a Docker daemon of the laboratory, with a pause image and a
// busybox made here: none can be pulled.
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
	lab.Eventually(t, "Docker answers", func() bool { return exec.Command("docker", "info").Run() == nil })
	root := t.TempDir()
	for _, sub := range []string{"bin", "etc", "tmp"} {
		if err := os.Mkdir(filepath.Join(root, sub), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	lab.Run(t, "cp", busybox, root+"/bin/busybox")
	lab.Run(t, "sh", "-c", "tar -C "+root+" -c . | docker import -c 'ENTRYPOINT [\"/bin/busybox\", \"sleep\", \"1000000\"]' - pause:1")
	lab.Run(t, "sh", "-c", "tar -C "+root+" -c . | docker import - busybox:1")
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

// testPauseKilled kills the pause container behind Nomad's back.
func testPauseKilled(a *agent) {
	alloc := a.run("paused", docker())[0]
	pause := strings.TrimSpace(lab.Run(a, "docker", "ps", "-q", "--filter", "name=nomad_init_"+alloc.ID))
	if pause == "" {
		a.Fatal("there is no pause container")
	}
	lab.Run(a, "docker", "kill", pause)
	if said := events(a.AwaitFailed("paused"), "storage-net"); !strings.Contains(said, "network namespace") || !strings.Contains(said, "is missing") {
		a.Errorf("the events do not say why:\n%s", said)
	}
	a.Stop("paused")
	// Nomad's own bridge leaves a lease and a cached result: its DEL refuses the
	// path, at which Docker has left an empty file.
	if out := lab.Run(a, allocnet, "cleanup", alloc.ID); !strings.Contains(out, "/run/cni/nomad/") {
		a.Errorf("cleanup found no lease of Nomad's own bridge:\n%s", out)
	}
}
