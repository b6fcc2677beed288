// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package nomadclient

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/internal/fakecni"
	"github.com/allocnet/allocnet/internal/netns"
	"github.com/allocnet/allocnet/internal/sandbox"
	"github.com/allocnet/allocnet/internal/sandbox/nomadagent"
	"github.com/allocnet/allocnet/internal/sandbox/nomadclient"
)

// TestLongSameCalls: the caller makes the calls of the real Nomad agent, and returns its errors.
func TestLongSameCalls(t *testing.T) {
	fakecni.Install(t, plugins)
	t.Cleanup(func() { _ = os.Remove(plugins + "/" + fakecni.Type) })
	for name, verbs := range map[string]map[string]fakecni.Behaviour{
		"recorded":   nil,
		"capital":    nil,
		"late":       {"ADD": {Code: 11, Msg: "attempt #", FailTimes: 1, Counter: dir + "/count"}},
		"del-fails":  {"DEL": {Code: 11, Msg: "cannot"}},
		"both-fail":  {"ADD": {Code: 7, Msg: "attempt #", Counter: dir + "/count"}, "DEL": {Code: 7, Msg: "no"}},
		"no-address": {"ADD": {Output: `{"cniVersion": "1.0.0", "interfaces": [], "ips": []}`}},
	} {
		sandbox.WriteFile(t, confDir+"/"+name+".conflist", recording(t, name, verbs))
	}
	t.Cleanup(func() { sandbox.Run(t, "sh", "-c", "rm "+confDir+"/*; ip link delete rec0") })
	real, caller := newRealClient(t), newCaller()
	for _, test := range []struct {
		network  string
		restarts bool
		calls    string
	}{
		{"recorded", true, "ADD DEL"},
		{"late", false, "ADD ADD DEL"},
		{"del-fails", false, "ADD DEL"},
		{"both-fail", false, "ADD ADD ADD DEL"},
		{"no-address", false, "ADD DEL"},
		{"capital", false, ""},
	} {
		t.Run(test.network, func(t *testing.T) {
			want := observe(t, real, test.network, test.restarts)
			got := observe(t, caller, test.network, test.restarts)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("not as the real one (-real +caller):\n%s", diff)
			}
			if verbs := want.verbs(); verbs != test.calls {
				t.Errorf("the real one called %q, want %q", verbs, test.calls)
			}
		})
	}
}

const record = dir + "/calls"

// recording is a network whose first plugin records its calls.
func recording(t *testing.T, name string, verbs map[string]fakecni.Behaviour) string {
	t.Helper()
	script, err := json.Marshal(fakecni.Script{Record: record, Verbs: verbs})
	if err != nil {
		t.Fatal(err)
	}
	bridge, network := `, {"type": "bridge", "bridge": "rec0", "ipam": {"type": "static", "addresses": [{"address": "10.77.0.2/24"}]}, "dns": {"nameservers": ["192.0.2.53"]}}`, name
	switch name {
	case "no-address":
		bridge = ""
	case "capital": // the client looks for it in lower case
		network = "Capital"
	}
	return fmt.Sprintf(`{"cniVersion": "1.0.0", "name": %q, "plugins": [{"type": "fakecni", "capabilities": {"portMappings": true}, "fake": %s}%s]}`, network, script, bridge)
}

// observed is what a client has done with an allocation.
type observed struct {
	ID    string
	Calls []fakecni.Call
	// Error is that of the set-up, and Leaked that of the teardown.
	Error, Leaked, Address, Interface string
}

func (o observed) verbs() string {
	var verbs []string
	for _, call := range o.Calls {
		verbs = append(verbs, call.Env["CNI_COMMAND"])
	}
	return strings.Join(verbs, " ")
}

// runner is the real client, or the caller.
type runner interface {
	// start runs an allocation on a network, and returns what Nomad has of it.
	start(t *testing.T, network string) observed
	restart(t *testing.T, network string)
	// stop returns the error of the teardown, also of an allocation that has not started.
	stop(t *testing.T, network, id string) string
}

func observe(t *testing.T, c runner, network string, restarts bool) observed {
	t.Helper()
	for _, path := range []string{record, dir + "/count"} {
		if err := os.RemoveAll(path); err != nil {
			t.Fatal(err)
		}
	}
	o := c.start(t, network)
	if restarts {
		c.restart(t, network)
	}
	o.Leaked = normal(c.stop(t, network, o.ID), o.ID)
	sandbox.RequireNothing(t, "namespace", func() string { return sandbox.Run(t, "ls", "/run/netns") })
	o.Calls, o.Error, o.ID = recorded(t, o.ID), normal(o.Error, o.ID), ""
	return o
}

var volatile = []struct {
	text *regexp.Regexp
	name string
}{
	{regexp.MustCompile(`([0-9a-f]{2}:){5}[0-9a-f]{2}`), "MAC"},
	{regexp.MustCompile(`,"dns":\{\}`), ""}, // of later versions of libcni
	{regexp.MustCompile(`veth[0-9a-f]{8}`), "VETH"},
	{regexp.MustCompile(`"HostPort":[23]\d{4}\b`), `"HostPort":20001`},
}

// normal replaces what differs between two allocations.
func normal(text, id string) string {
	text = strings.ReplaceAll(text, id, "ALLOCATION")
	for _, v := range volatile {
		text = v.text.ReplaceAllString(text, v.name)
	}
	return text
}

// recorded returns the calls of an allocation.
func recorded(t *testing.T, id string) []fakecni.Call {
	t.Helper()
	data, err := os.ReadFile(record)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	var calls []fakecni.Call
	for decoder := json.NewDecoder(bytes.NewReader([]byte(normal(string(data), id)))); decoder.More(); {
		var call fakecni.Call
		if err := decoder.Decode(&call); err != nil {
			t.Fatal(err)
		}
		calls = append(calls, call)
	}
	return calls
}

// realClient is the real Nomad agent.
type realClient struct{ *nomadagent.Agent }

func newRealClient(t *testing.T) realClient {
	t.Helper()
	a := nomadagent.NewAgent(t, dir, nomadagent.Config{DataDir: dataDir, Client: fmt.Sprintf(`
  cni_path       = "%s:%s"
  cni_config_dir = %q
`, plugins, sandbox.PluginDir(), confDir)}.String(), allocnet, "WARN|ERROR")
	a.Start()
	return realClient{a}
}

const realJob = `job %q {
  group "g" {
    reschedule {
      attempts  = 0
      unlimited = false
    }
    network {
      mode = "cni/%s"
      port "http" {
        to = 80
      }
      port "fixed" {
        static = 8088
      }
    }
    task "t" {
      driver = "raw_exec"
      config {
        command = "sleep"
        args    = ["1000000"]
      }
      resources {
        cpu    = 20
        memory = 20
      }
      kill_timeout = "1s"
    }
  }
}`

func (c realClient) start(t *testing.T, network string) (o observed) {
	t.Helper()
	c.T = t
	mode := network
	if network == "capital" {
		mode = "Capital"
	}
	c.Submit(network, fmt.Sprintf(realJob, network, mode))
	var found nomadagent.Allocation
	c.Await("the allocation runs or has failed", func() bool {
		for _, found = range c.Allocations(network) {
			if found.ClientStatus == "failed" || found.ClientStatus == "running" {
				return true
			}
		}
		return false
	})
	if err := c.API("allocation/"+found.ID, &found); err != nil {
		t.Fatal(err)
	}
	o.ID = found.ID
	_, o.Error, _ = strings.Cut(found.ClientDescription, "due to error: ")
	for _, event := range found.TaskStates["t"].Events {
		if event.Type == "Setup Failure" {
			_, o.Error, _ = strings.Cut(event.DisplayMessage, `pre-run hook "network" failed: `)
		}
	}
	if status := found.NetworkStatus; status != nil {
		o.Address, o.Interface = status.Address, status.InterfaceName
	}
	return o
}

func (c realClient) restart(t *testing.T, network string) {
	t.Helper()
	c.T = t
	c.Signal(unix.SIGTERM)
	c.Start()
	c.AwaitRunning(network, 1)
}

func (c realClient) stop(t *testing.T, network, id string) string {
	t.Helper()
	c.T = t
	c.Nomad("job", "stop", "-purge", "-detach", network)
	path := netns.DefaultDir + "/" + id
	c.Await("the namespace is destroyed", func() bool {
		_, err := os.Stat(path)
		return os.IsNotExist(err) || strings.Contains(sandbox.Run(t, "cat", c.LogPath()), "postrun failed: alloc_id="+id)
	})
	log := sandbox.Run(t, "cat", c.LogPath()) // the teardown has been logged before
	// Up to 1.10.0 the client cannot unmount a namespace that is busy, and leaves it.
	if err := netns.Remove(path); err != nil {
		t.Fatal(err)
	}
	leaked := regexp.MustCompile(`resources may have leaked: alloc_id=` + id + ` .*error="(.*)"`).FindStringSubmatch(log)
	if leaked == nil {
		return ""
	}
	return leaked[1]
}

// caller is the caller as Nomad 1.6.2.
type caller struct {
	*nomadclient.Client
	last *nomadclient.Allocation
}

func newCaller() *caller {
	return &caller{Client: nomadclient.New(nomadclient.Config{
		Version: nomadclient.Real, PluginDirs: []string{plugins, sandbox.PluginDir()}, ConfDir: confDir, AllocDir: allocDir,
		Pause: func(time.Duration) {},
	})}
}

func (c *caller) start(_ *testing.T, network string) (o observed) {
	started, err := c.Run(nomadclient.Group{Job: network, Name: "g", Networks: []nomadclient.Network{{
		Mode: "cni/" + network, Ports: []nomadclient.Port{{Label: "http", To: 80}, {Label: "fixed", Static: 8088}},
	}}})
	c.last = started[0]
	o.ID = c.last.ID
	if err != nil {
		o.Error = err.Error()
	}
	if status := c.last.Status; status != nil {
		o.Address, o.Interface = status.Address, status.InterfaceName
	}
	return o
}

func (c *caller) restart(t *testing.T, _ string) {
	t.Helper()
	if err := c.Restart(); err != nil {
		t.Fatal(err)
	}
}

func (c *caller) stop(*testing.T, string, string) string {
	if c.last.Status != nil {
		c.Stop(c.last)
	}
	if c.last.Leaked == nil {
		return ""
	}
	return c.last.Leaked.Error()
}
