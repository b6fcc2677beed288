// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package driver

import (
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/allocnet/allocnet/internal/sandbox"
	"github.com/allocnet/allocnet/internal/sandbox/nomadagent"
)

// conf has the networks of the client.
var conf = map[string]string{
	"10-web.conflist": `{"cniVersion": "1.0.0", "name": "web", "plugins": [
		{"type": "bridge", "bridge": "web0", "isGateway": true, "ipMasq": true, "hairpinMode": true,
		 "ipam": {"type": "host-local", "ranges": [[{"subnet": "10.88.0.0/16"}]], "routes": [{"dst": "0.0.0.0/0"}]}},
		{"type": "firewall"},
		{"type": "portmap", "snat": true, "capabilities": {"portMappings": true}}]}`,
	"20-storage.conflist": bridge("storage", "10.89.0.0/16", ""),
	"21-mgmt.conflist":    bridge("mgmt", "10.91.0.0/16", ""),
	"30-closed.conflist":  bridge("closed", "10.92.0.0/24", `"allocnet": {"namespaces": ["prod"]},`),
}

// bridge is a network without a default route, on which a job can choose addresses.
func bridge(name, subnet, more string) string {
	return fmt.Sprintf(`{"cniVersion": "1.0.0", "name": %q, %s "plugins": [
		{"type": "bridge", "bridge": %q, "isGateway": true, "mtu": 1400, "capabilities": {"ips": true},
		 "ipam": {"type": "host-local", "ranges": [[{"subnet": %q}]]}}]}`, name, more, name+"0", subnet)
}

// TestDriver uses one agent for all tests: a new one needs half a minute to be ready.
func TestDriver(t *testing.T) {
	for name, text := range conf {
		sandbox.WriteFile(t, filepath.Join(confDir, name), text)
	}
	startDocker(t)
	a := newAgent(t)
	a.Start()
	a.warm()
	for _, test := range []struct {
		name string
		run  func(*agent)
	}{
		{"Job", testJob},
		{"Answers", testAnswers},
		{"Ports", testPorts},
		{"Documentation", testDocumentation},
		{"Files", testFiles},
		{"Names", testNames},
		{"LiveAttach", testLiveAttach},
		{"InterfaceDeleted", testInterfaceDeleted},
		{"Refused", testRefused},
		{"LongKilled", testKilled},
		{"Reboot", testReboot},
		{"LongDocker", testDocker},
		{"LongPauseKilled", testPauseKilled},
		{"LongSticky", testSticky},
		{"LongScheduling", testScheduling},
		{"LongCrowd", testCrowd},
	} {
		t.Run(test.name, func(t *testing.T) {
			before := sandbox.Snapshot(t)
			a.T = t
			test.run(a)
			sandbox.RequireSame(t, before)
			requireNoState(t)
		})
		a.T = t
	}
}

// warm attaches to every network once: bridges and shared chains remain.
func (a *agent) warm() {
	a.Helper()
	all := map[string]string{"nets": `network "storage" {}
		network "mgmt" {}`}
	for _, j := range []job{{mode: "bridge", networks: all}, {mode: "cni/web", networks: all}, mapped} {
		j.driver, j.script = "raw_exec", "exec "+busybox+" sleep 1000000"
		a.run("warm", j)
		a.Stop("warm")
	}
}

func requireNoState(t *testing.T) {
	t.Helper()
	sandbox.RequireNothing(t, "state", func() string {
		left, _ := filepath.Glob("/var/lib/allocnet/[^e]*/*") // without events
		return strings.Join(left, "\n")
	})
}

// serveDB records the interfaces at its first instruction, then serves on the port of
// the service.
const serveDB = busybox + ` ip -o addr > ${NOMAD_ALLOC_DIR}/first.new && ` + busybox + ` mv ${NOMAD_ALLOC_DIR}/first.new ${NOMAD_ALLOC_DIR}/first && exec ` + busybox + ` httpd -f -p 5433 -h ${NOMAD_ALLOC_DIR}`

// testJob runs the job of the documentation in the modes bridge and cni/, with exec
// and raw_exec. Another job discovers the service in Nomad and reaches it.
func testJob(a *agent) {
	services := `service {
        name         = "db-%s"
        provider     = "nomad"
        address_mode = "driver"
        port         = 5433
      }`
	jobs := map[string]job{}
	for mode, of := range map[string]string{"bridge": "bridge", "cni": "cni/web"} {
		for _, driver := range []string{"exec", "raw_exec"} {
			id := mode + "-" + strings.ReplaceAll(driver, "_", "-")
			jobs[id] = job{mode: of, driver: driver, script: serveDB, services: fmt.Sprintf(services, id),
				networks: map[string]string{"storage-net": `network "storage" {
					interface = "net1"
				}`}}
			a.Submit(id, jobs[id].hcl(id))
		}
	}
	var ids []string
	for id := range jobs {
		ids = append(ids, id)
		alloc := a.AwaitRunning(id, 1)[0]
		requireFirst(a, alloc)
		requireService(a, alloc, "db-"+id)
	}
	a.Stop(ids...)
}

// mapped is a group whose main network maps no ports, and an attached one does.
var mapped = job{
	mode: "cni/mgmt", ports: `port "db" { to = 5433 }`,
	networks: map[string]string{"web-net": `network "web" { ports = ["db"] }`},
}

// testPorts: a port of the group is published on the attached network.
func testPorts(a *agent) {
	j := mapped
	j.driver, j.script = "raw_exec", serveDB
	alloc := a.run("ports", j)[0]
	port := alloc.AllocatedResources.Shared.Ports[0]
	requireAnswer(a, fmt.Sprintf("http://%s:%d/first", port.HostIP, port.Value), "net1    inet 10.88.")
	a.Stop("ports")
}

// requireAnswer: a program of the host gets the answer.
func requireAnswer(a *agent, url, words string) {
	a.Helper()
	client := http.Client{Timeout: time.Minute, Transport: &http.Transport{DisableKeepAlives: true}}
	text := ""
	a.Await(url+" answers", func() bool {
		response, err := client.Get(url)
		if err != nil {
			return false
		}
		defer response.Body.Close()
		data, err := io.ReadAll(response.Body)
		text = string(data)
		return err == nil && response.StatusCode == http.StatusOK
	})
	if !strings.Contains(text, words) {
		a.Errorf("%s answers, without %q:\n%s", url, words, text)
	}
}

// requireFirst: the interface had its address before the main task's first
// instruction.
func requireFirst(a *agent, alloc nomadagent.Allocation) {
	a.Helper()
	n := alloc.Setup().Attachments[0]
	first := ""
	a.Await("the main task has recorded what it sees", func() bool {
		first = alloc.File("alloc/first")
		return first != ""
	})
	if !strings.Contains(first, "net1    inet "+n.Addresses[0].String()) || !strings.Contains(first, "eth0") {
		a.Errorf("%s: the main task's first instruction sees\n%s", alloc.JobID, first)
	}
	for _, word := range []string{"Attached storage as net1 " + n.Addresses[0].String()} {
		if text := events(alloc, "storage-net"); !strings.Contains(text, word) {
			a.Errorf("%s: the events do not say %q:\n%s", alloc.JobID, word, text)
		}
	}
}

// requireService: the service is registered with the attached address, and another
// job reaches it there.
func requireService(a *agent, alloc nomadagent.Allocation, service string) {
	a.Helper()
	var registered []struct {
		Address string
		Port    int
	}
	address := alloc.Setup().Attachments[0].Addresses[0].Addr().String()
	a.Await("the service is registered", func() bool { return a.API("service/"+service, &registered) == nil && len(registered) == 1 })
	if registered[0].Address != address || registered[0].Port != 5433 {
		a.Errorf("registered is %+v, want %s:5433", registered, address)
	}
	id := "client-of-" + service
	client := a.run(id, job{mode: "bridge", driver: "raw_exec",
		networks: map[string]string{"net": `network "storage" {}`},
		template: fmt.Sprintf(`template {
        data        = %q
        destination = "local/db.env"
        env         = true
      }`, fmt.Sprintf(`{{ range nomadService %q }}DB={{ .Address }}:{{ .Port }}{{ end }}`, service)),
		script: `until ` + busybox + ` wget -q -O ${NOMAD_ALLOC_DIR}/answer.new http://$DB/first; do ` + busybox + ` sleep 1; done; ` + busybox + ` mv ${NOMAD_ALLOC_DIR}/answer.new ${NOMAD_ALLOC_DIR}/answer; exec ` + busybox + ` sleep 1000000`})[0]
	got := ""
	a.Await("the client has an answer", func() bool {
		got = client.File("alloc/answer")
		return got != ""
	})
	if !strings.Contains(got, address) {
		a.Errorf("%s: the client got %q", alloc.JobID, got)
	}
	a.Nomad("job", "stop", "-purge", "-detach", id)
}
