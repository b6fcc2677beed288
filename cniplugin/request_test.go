// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package cniplugin

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/containernetworking/cni/pkg/skel"
	"github.com/containernetworking/cni/pkg/types"
	"github.com/google/go-cmp/cmp"

	"github.com/allocnet/allocnet/portmap"
	"github.com/allocnet/allocnet/selection"
)

func TestReadConf(t *testing.T) {
	const mistake = `{"cniVersion": "1.0.0", "name": "multi", "type": "allocnet-cni", "primary": 3, "stateDir": "/s", "timeout": "5s"}`
	if _, _, err := readConf([]byte(mistake), true); err == nil {
		t.Error("a strict verb accepts a mistake")
	}
	c, warning, err := readConf([]byte(mistake), false)
	if err != nil || warning != nil || c.StateDir != "/s" || c.timeout != 5*time.Second {
		t.Errorf("not strict: %+v, warning %v, error %v", c, warning, err)
	}
	for text, word := range map[string]string{
		`{"stateDir": "/s", "timeout": "never"}`: "timeout",
		`{"stateDir": "/s", "timeout": 5}`:       "timeout",
		`{"stateDir": "/s", "networks": `:        "stdin:1:31: invalid JSON: the text ends",
	} {
		c, warning, err := readConf([]byte(text), false)
		if err != nil || warning == nil || !strings.Contains(warning.Error(), word) || c.timeout != time.Minute {
			t.Errorf("%s: timeout %s, warning %v, error %v", text, c.timeout, warning, err)
		}
	}
}

// TestNewRequest: a call without a valid log file or configuration still has an
// engine, unless the verb is strict.
func TestNewRequest(t *testing.T) {
	dir := t.TempDir()
	open := func(strict bool, more string) (*request, error) {
		return testCall("ADD").newRequest(t.Context(), &skel.CmdArgs{ContainerID: "a1", StdinData: []byte(fmt.Sprintf(
			`{"cniVersion": "1.0.0", "name": "multi", "type": "allocnet-cni", "primary": "web", "stateDir": %q%s}`, dir+"/state", more))}, strict)
	}
	r, err := open(true, fmt.Sprintf(`, "logFile": %q, "logLevel": "info"`, dir+"/log"))
	if err != nil {
		t.Fatal(err)
	}
	if deadline, ok := r.ctx.Deadline(); !ok || deadline.IsZero() {
		t.Error("the call has no deadline")
	}
	failed := r.outcome(errors.New("x\ny"))
	requireError(t, failed, types.ErrInternal, "x; y")
	if err := r.outcome(nil); err != nil {
		t.Error(err)
	}
	r.close()
	if r.ctx.Err() == nil {
		t.Error("a closed call goes on")
	}
	if text, err := os.ReadFile(dir + "/log"); err != nil || !strings.Contains(string(text), "x; y") || !strings.Contains(string(text), "container=a1") {
		t.Errorf("the log has %q, %v", text, err)
	}
	const noLog = `, "logFile": "/proc/none/log"`
	_, err = open(true, noLog)
	requireError(t, err, types.ErrInvalidNetworkConfig, "logFile")
	if r, err = open(false, noLog); err != nil {
		t.Fatal(err)
	}
	r.close()
	if err := os.Symlink(dir+"/log", dir+"/link"); err != nil {
		t.Fatal(err)
	}
	_, err = open(true, fmt.Sprintf(`, "logFile": %q`, dir+"/link"))
	requireError(t, err, types.ErrInvalidNetworkConfig, "logFile")
	dir = "/proc/none"
	if _, err = open(false, ""); err == nil {
		t.Error("a state directory that cannot be made is accepted")
	}
}

// TestPrimary: capability arguments of the runtime override the primary's own.
func TestPrimary(t *testing.T) {
	r := &request{args: &skel.CmdArgs{IfName: "eth0"}, conf: good(t, `"primary": {"name": "web", "mtu": 1400, "ips": ["10.0.0.1"], "mac": "02:00:00:00:00:01"}, "runtimeConfig": {
		"ips": ["10.0.0.9/24"], "mac": "02:00:00:00:00:09", "bandwidth": {"ingressRate": 8}, "infinibandGUID": "c2:11"}`)}
	want := &selection.Element{Name: "web", Interface: "eth0", MTU: 1400, IPs: []string{"10.0.0.9/24"}, MAC: "02:00:00:00:00:09",
		Bandwidth: &selection.Bandwidth{IngressRate: 8}, InfinibandGUID: "c2:11"}
	if diff := cmp.Diff(want, r.primary()); diff != "" {
		t.Error(diff)
	}
	r.conf.RuntimeConfig = runtimeConfig{}
	want = &selection.Element{Name: "web", Interface: "eth0", MTU: 1400, IPs: []string{"10.0.0.1"}, MAC: "02:00:00:00:00:01"}
	if diff := cmp.Diff(want, r.primary()); diff != "" {
		t.Error(diff)
	}
	r.conf.primary = nil
	if got := r.primary(); got != nil {
		t.Errorf("chained: %+v", got)
	}
}

// TestPorts: labels are the numbers in the container. If the plugin is chained, the
// other plugins map the ports that no network names.
func TestPorts(t *testing.T) {
	const mappings = `"runtimeConfig": {"portMappings": [{"hostPort": 8080, "containerPort": 80, "protocol": "tcp"}, {"hostPort": 53, "protocol": "udp", "hostIP": "192.0.2.1"}]}`
	http, dns := portmap.Port{Label: "80", HostPort: 8080, To: 80, Protocol: "tcp"}, portmap.Port{Label: "53", HostPort: 53, To: 53, Protocol: "udp", HostIP: "192.0.2.1"}
	for conf, want := range map[string][]portmap.Port{
		`"primary": "web"`: {http, dns},
		`"networks": "a"`:  nil,
		`"networks": [{"name": "a", "ports": ["53"]}]`:  {dns},
		`"networks": [{"name": "a", "ports": ["443"]}]`: nil,
	} {
		c := good(t, conf+", "+mappings)
		r := &request{args: &skel.CmdArgs{ContainerID: "a1", IfName: "eth0"}, conf: c}
		s, err := r.setup()
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, s.Ports); diff != "" {
			t.Errorf("%s: %s", conf, diff)
		}
		if empty(s) {
			t.Errorf("%s: there is nothing to attach", conf)
		}
	}
	r := &request{args: &skel.CmdArgs{ContainerID: "a1", IfName: "eth0"}, conf: good(t, mappings)}
	if s, err := r.setup(); err != nil || !empty(s) {
		t.Errorf("without networks: %+v, %v", s, err)
	}
}

// TestCall: each failure of a call is a CNI error.
func TestCall(t *testing.T) {
	ran := call(func(*request) error { return errors.New("ran") }, true)
	failure := func(_ []byte, err error) error { return err }
	requireError(t, failure(ran(t.Context(), testCall("ADD"), &skel.CmdArgs{StdinData: []byte(`{`)})), types.ErrDecodingFailure)
	dir := filepath.Join(t.TempDir(), "state")
	requireError(t, failure(ran(t.Context(), testCall("ADD"), &skel.CmdArgs{StdinData: []byte(fmt.Sprintf(`{"cniVersion": "1.0.0", "name": "m", "type": "allocnet-cni", "primary": "w", "stateDir": %q, "logFile": %q}`, dir, dir+".log"))})), types.ErrInternal, "ran")
	done := call(func(*request) error { return nil }, false)
	if _, err := done(t.Context(), testCall("DEL"), &skel.CmdArgs{StdinData: []byte(fmt.Sprintf(`{"stateDir": %q}`, dir))}); err != nil {
		t.Error(err)
	}
}
