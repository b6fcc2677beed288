// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package nomad

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/agent/client"
	"github.com/allocnet/allocnet/internal/netns"
	"github.com/allocnet/allocnet/internal/sandbox"
	"github.com/allocnet/allocnet/internal/sandbox/nomadagent"
)

const agentSocket = "/run/allocnet/agent.sock"

// daemon is an `allocnet agent` next to a Nomad agent.
type daemon struct {
	*agent
	cmd    *exec.Cmd
	log    bytes.Buffer
	client *client.Client
}

// TestAllocnetAgent delegates Nomad's CNI calls to the agent. The agent uses a Nomad
// token with the documented policy.
func TestAllocnetAgent(t *testing.T) {
	for name, text := range conf {
		sandbox.WriteFile(t, filepath.Join(confDir, name), text)
	}
	for _, file := range glob(t, "../../dist/conf/*.conflist") {
		sandbox.WriteFile(t, filepath.Join(confDir, filepath.Base(file)), read(t, file))
	}
	sandbox.Run(t, allocnet, "conf", "generate", "web", "--conf-dir", confDir, "--plugin-dir", plugins+":"+sandbox.PluginDir(), "--alloc-dir", "none", "--job-networks")
	a := newAgent(t)
	sandbox.WriteFile(t, dir+"/agent.hcl", sandbox.Run(t, "cat", dir+"/agent.hcl")+"\nacl {\n enabled = true\n}\n")
	token := make(chan string, 1)
	go func() { token <- bootstrapACL(a) }() // start waits for the token
	a.Start()
	d := &daemon{agent: a, client: client.New(agentSocket)}
	d.configure(<-token)
	d.launch()
	t.Cleanup(func() {
		if d.cmd != nil {
			d.end(unix.SIGTERM)
		}
	})
	d.jobNetworks()
	d.metadata()
	d.killed()
	d.leak()
	d.unread()
	d.asJob()
	d.unreachable()
}

// bootstrapACL grants anonymous requests, as those of the test, everything. It returns
// a token with the policy of docs/agent.md.
func bootstrapACL(a *agent) string {
	var root struct{ SecretID string }
	a.Await("ACLs are bootstrapped", func() bool { return post("acl/bootstrap", "", nil, &root) == nil })
	const all = `namespace "*" { policy = "write" }
		node { policy = "write" }
		agent { policy = "write" }
		operator { policy = "write" }`
	documented := regexp.MustCompile("(?s)<!-- policy -->\n```hcl\n(.*?)```").FindStringSubmatch(read(a.T, "../../docs/agent.md"))
	if job := read(a.T, "../../dist/jobs/agent/policy.hcl"); job != documented[1] {
		a.Errorf("the policy of the job is\n%s\nand that of docs/agent.md\n%s", job, documented[1])
	}
	var token struct{ SecretID string }
	for name, policy := range map[string]map[string]any{
		"anonymous":      {"Rules": all},
		"allocnet":       {"Rules": documented[1]},
		"allocnet-agent": {"Rules": documented[1], "JobACL": map[string]string{"Namespace": "default", "JobID": "allocnet-agent"}},
	} {
		policy["Name"] = name
		a.Await("policy "+name, func() bool { return post("acl/policy/"+name, root.SecretID, policy, nil) == nil })
	}
	a.Await("the token", func() bool {
		return post("acl/token", root.SecretID, map[string]any{"Name": "allocnet", "Type": "client", "Policies": []string{"allocnet"}}, &token) == nil
	})
	return token.SecretID
}

func post(path, token string, body, answer any) error {
	data, err := json.Marshal(body)
	if err != nil {
		return err
	}
	request, err := http.NewRequest(http.MethodPost, "http://127.0.0.1:4646/v1/"+path, bytes.NewReader(data))
	if err != nil {
		return err
	}
	request.Header.Set("X-Nomad-Token", token)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", path, response.Status)
	}
	if answer == nil {
		return nil
	}
	return json.NewDecoder(response.Body).Decode(answer)
}

// configure writes the configuration of the agent: with a token, or with the block of
// docs/nomad.md.
func (d *daemon) configure(token string) {
	d.Helper()
	block := documented(d.T, "tested: agent")
	if token != "" {
		block = fmt.Sprintf("nomad {\n token_file = %q\n events = true\n metadata = true\n job_networks = true\n}", dir+"/token")
		sandbox.WriteFile(d, dir+"/token", token+"\n")
	}
	sandbox.WriteFile(d, dir+"/allocnet.hcl", fmt.Sprintf(`
conf_dir    = %q
plugin_dirs = [%q, %q]
%s
limits {
  request_timeout = "20s"
}
reconcile {
  interval = "1h" # what is seen comes from the event stream
}
`, ownDir+":"+confDir, plugins, sandbox.PluginDir(), block))
}

func (d *daemon) launch() {
	d.Helper()
	d.cmd = exec.Command(allocnet, "agent", "--config", dir+"/allocnet.hcl")
	d.cmd.Stdout, d.cmd.Stderr = &d.log, &d.log
	if err := d.cmd.Start(); err != nil {
		d.Fatal(err)
	}
	d.Await("the agent is ready", func() bool { return d.client.Ready(context.Background()) == nil })
}

func (d *daemon) end(s unix.Signal) {
	_ = d.cmd.Process.Signal(s)
	_ = d.cmd.Wait() // signalled
	d.cmd = nil
	if d.Failed() {
		d.Logf("allocnet agent:\n%s", d.log.String())
	}
}

func (d *daemon) metric(series string) string {
	d.Helper()
	c := http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", agentSocket)
	}}}
	response, err := c.Get("http://agent/metrics")
	if err != nil {
		d.Fatal(err)
	}
	defer response.Body.Close()
	var text bytes.Buffer
	if _, err := text.ReadFrom(response.Body); err != nil {
		d.Fatal(err)
	}
	if line := regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(series) + ` (.*)$`).FindStringSubmatch(text.String()); line != nil {
		return line[1]
	}
	return "0"
}

// jobNetworks selects networks by additional network blocks and by meta. A change of
// either replaces the allocation.
func (d *daemon) jobNetworks() {
	d.Helper()
	job := group{port: publish, selects: `"mgmt@net5"`, networks: "network {\n mode = \"cni/storage\"\n}"}
	first := d.run("selecting", job)[0]
	if got := nomadagent.Networks(first.Setup()); got != "eth0=web net1=storage net5=mgmt" {
		d.Errorf("with blocks and meta it has %s", got)
	}
	path := filepath.Join(dir, "selecting.nomad.hcl")
	if out, code := plan(path); code != 0 {
		d.Errorf("plan of what runs: exit code %d\n%s", code, out)
	}
	job.networks = strings.Replace(job.networks, "cni/storage", "cni/backup", 1)
	sandbox.WriteFile(d, path, job.hcl("selecting"))
	if out, code := plan(path); code != 1 || !strings.Contains(out, "cni/backup") {
		d.Errorf("plan of another block: exit code %d\n%s", code, out)
	}
	d.Nomad("job", "run", "-detach", path)
	d.Await("the allocation is replaced", func() bool {
		for _, alloc := range d.Allocations("selecting") {
			if alloc.ID != first.ID && alloc.ClientStatus == "running" {
				return nomadagent.Networks(alloc.Setup()) == "eth0=web net1=backup net5=mgmt"
			}
		}
		return false
	})
	d.Stop("selecting")
	if left, _ := filepath.Glob("/var/lib/allocnet/job-networks/*"); left != nil {
		d.Errorf("job networks are left in the cache: %v", left)
	}
}

// plan returns the output of `nomad job plan`. Exit code 1 is a change.
func plan(path string) (string, int) {
	cmd := exec.Command(nomadagent.Binary(), "job", "plan", path)
	out, _ := cmd.CombinedOutput() // the exit code is the result
	return string(out), cmd.ProcessState.ExitCode()
}

// metadata places a job on a node that has a network.
func (d *daemon) metadata() {
	d.Helper()
	constraint := func(network string) string {
		return fmt.Sprintf("constraint {\n attribute = \"${meta.allocnet.network.%s}\"\n value = \"true\"\n}", network)
	}
	d.run("placed", group{networks: constraint("storage")})
	if out, _ := exec.Command(nomadagent.Binary(), "job", "plan", d.write("nowhere", group{networks: constraint("nowhere")})).CombinedOutput(); !strings.Contains(string(out), "meta.allocnet.network.nowhere") {
		d.Errorf("plan for a network that is nowhere:\n%s", out)
	}
	d.Stop("placed")
}

func (d *daemon) write(id string, g group) string {
	d.Helper()
	path := filepath.Join(dir, id+".nomad.hcl")
	sandbox.WriteFile(d, path, g.hcl(id))
	return path
}

// killed stops a job while the agent is dead: the plugin tears it down.
func (d *daemon) killed() {
	d.Helper()
	before := sandbox.Snapshot(d)
	alloc := d.run("killed", group{port: publish, selects: `"storage"`})[0]
	d.end(unix.SIGKILL)
	d.Stop("killed")
	if out, err := exec.Command(allocnet, "status", alloc.ID).CombinedOutput(); err == nil {
		d.Errorf("it is on record still:\n%s", out)
	}
	d.launch() // only its cache is left
	sandbox.RequireSame(d, before)
}

// leak stops a job while neither the agent nor the plugin can tear it down, as while both are
// upgraded. The agent does it when Nomad says that the allocation has ended.
func (d *daemon) leak() {
	d.Helper()
	before := sandbox.Snapshot(d)
	alloc := d.run("leak", group{port: publish, selects: `"storage"`})[0]
	d.end(unix.SIGKILL)
	if err := os.Rename(plugins+"/allocnet-cni", dir+"/allocnet-cni"); err != nil {
		d.Fatal(err)
	}
	d.Stop("leak")
	alloc.Setup() // still on record
	if err := os.Rename(dir+"/allocnet-cni", plugins+"/allocnet-cni"); err != nil {
		d.Fatal(err)
	}
	d.launch()
	d.Await("the leak is removed", func() bool { return d.metric(`allocnet_leaks_removed_total{kind="allocation"}`) == "1" })
	if out, err := exec.Command(allocnet, "status", alloc.ID).CombinedOutput(); err == nil {
		d.Errorf("it is on record still:\n%s", out)
	}
	// Nomad's cached result remains, because its DEL failed.
	if err := os.RemoveAll("/var/lib/cni/results/multi-" + alloc.ID + "-eth0"); err != nil {
		d.Fatal(err)
	}
	sandbox.RequireSame(d, before)
}

// unread starts a job while the agent does not read the networks of jobs: it does not run
// without them.
func (d *daemon) unread() {
	d.Helper()
	before := sandbox.Snapshot(d)
	config := read(d, dir+"/allocnet.hcl")
	d.end(unix.SIGTERM)
	sandbox.WriteFile(d, dir+"/allocnet.hcl", strings.Replace(config, "job_networks = true", "", 1))
	d.launch()
	d.submit("unread", group{selects: `"storage"`})
	if status := unwrap(d.Nomad("alloc", "status", d.AwaitFailed("unread").ID)); !strings.Contains(status, "set job_networks = true") {
		d.Errorf("alloc status does not say what is missing:\n%s", status)
	}
	d.Stop("unread")
	sandbox.RequireSame(d, before)
	sandbox.WriteFile(d, dir+"/allocnet.hcl", config)
	d.end(unix.SIGTERM)
	d.launch()
}

// asJob runs the agent as a job of Nomad, which gives it the rights of its policy.
func (d *daemon) asJob() {
	d.Helper()
	d.end(unix.SIGTERM)
	sandbox.WriteFile(d, confDir+"/60-late.conflist", strings.ReplaceAll(read(d.T, confDir+"/20-storage.conflist"), `"storage"`, `"late"`))
	config := fmt.Sprintf("conf_dir = %q\nplugin_dirs = [%q, %q]", confDir, plugins, sandbox.PluginDir())
	d.Nomad("job", "run", "-detach", "-var", "program="+allocnet, "-var", "config="+config, sandbox.Source(d, "../../dist/jobs/agent/agent.nomad.hcl"))
	d.Await("the agent is ready", func() bool { return d.client.Ready(context.Background()) == nil })
	if got := nomadagent.Networks(d.run("identified", group{networks: "network {\n mode = \"cni/storage\"\n}"})[0].Setup()); got != "eth0=web net1=storage" {
		d.Errorf("with the agent as a job it has %s", got)
	}
	d.Stop("identified")
	d.Await("the agent has published the networks", func() bool { return d.meta("allocnet.network.late") == "true" })
	if got := d.metric(`allocnet_reconcile_rounds_total{outcome="unknown"}`); got != "0" {
		d.Errorf("%s rounds could not read from Nomad", got)
	}
	d.Stop("allocnet-agent")
	d.Await("the agent has exited", func() bool { _, err := os.Lstat(agentSocket); return os.IsNotExist(err) })
	if err := os.Remove(confDir + "/60-late.conflist"); err != nil {
		d.Fatal(err)
	}
	d.launch()
}

// meta returns dynamic metadata of the node.
func (d *daemon) meta(key string) string {
	d.Helper()
	var answer struct{ Meta map[string]string }
	if err := d.API("client/metadata", &answer); err != nil {
		d.Fatal(err)
	}
	return answer.Meta[key]
}

// unreachable ends an allocation while Nomad cannot be reached.
func (d *daemon) unreachable() {
	d.Helper()
	sandbox.Run(d, allocnet, "attach", "stray", "--conf-dir", confDir, "--plugin-dir", sandbox.PluginDir(), "--primary", "storage")
	d.Signal(unix.SIGKILL)
	if err := netns.Remove("/run/netns/stray"); err != nil {
		d.Fatal(err)
	}
	d.end(unix.SIGTERM)
	d.launch()
	if got := d.metric(`allocnet_reconcile_rounds_total{outcome="unknown"}`); got == "0" {
		d.Error("no round was unknown")
	}
	sandbox.Run(d, allocnet, "status", "stray") // still on record
	if _, err := os.Stat("/var/lib/allocnet/allocations/stray"); err != nil {
		d.Error(err)
	}
	sandbox.Run(d, allocnet, "detach", "stray")
}
