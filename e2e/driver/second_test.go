// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package driver

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/internal/netns"
	"github.com/allocnet/allocnet/internal/sandbox"
	"github.com/allocnet/allocnet/internal/sandbox/nomadagent"
)

// startSecond starts a second client in its own network and mount namespaces. It
// returns a function that stops it.
func startSecond(a *agent) func() {
	a.Helper()
	path, err := netns.Create(dir+"/ns", "second")
	if err != nil {
		a.Fatal(err)
	}
	sandbox.Run(a, "ip", "link", "set", "second", "netns", path)
	for _, command := range []string{"ip address add 10.99.0.2/24 dev second", "ip link set second up"} {
		sandbox.Run(a, append([]string{"nsenter", "--net=" + path}, strings.Fields(command)...)...)
	}
	for _, sub := range []string{"second-cni", "second-data"} {
		if err := os.MkdirAll(dir+"/"+sub, 0o755); err != nil {
			a.Fatal(err)
		}
	}
	config := fmt.Sprintf(agentConfig, sandbox.PluginDir(), "second", "10.99.0.2", false, 0)
	config = strings.NewReplacer(dataDir, dir+"/second-data", confDir, dir+"/second-cni", "bootstrap_expect = 0", "").Replace(config)
	sandbox.WriteFile(a, dir+"/second.hcl", config)
	cmd := exec.Command("nsenter", "--net="+path, "unshare", "--mount", "sh", "-c",
		`for dir in /run/netns /run/cni /var/lib/cni /var/lib/allocnet; do mkdir -p "$dir" && mount -t tmpfs -o mode=755 none "$dir" || exit; done; sysctl -qw net.ipv4.ip_forward=1 && exec "$@"`,
		"sh", nomadagent.Binary(), "agent", "-config", dir+"/second.hcl")
	cmd.Env = nomadagent.Environ()
	log, err := os.Create(filepath.Join(a.ArtifactDir(), "second.log"))
	if err != nil {
		a.Fatal(err)
	}
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		a.Fatal(err)
	}
	return func() {
		_ = cmd.Process.Signal(unix.SIGINT)
		_ = cmd.Wait() // it was signalled
		sandbox.Run(a, "nsenter", "--net="+path, "ip", "link", "set", "second", "netns", fmt.Sprint(os.Getpid()))
		if err := netns.Remove(path); err != nil {
			a.Error(err)
		}
		if a.Failed() {
			text, _ := exec.Command("grep", "-E", "WARN|ERROR|allocnet", log.Name()).Output()
			a.Logf("the second client's log, in part:\n%s", text[max(0, len(text)-4000):])
		}
	}
}
