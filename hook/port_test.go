// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package hook

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/allocnet/allocnet/allocation"
	"github.com/allocnet/allocnet/hook/internal/onrecord"
	"github.com/allocnet/allocnet/internal/errdefs"
	"github.com/allocnet/allocnet/policy"
	"github.com/allocnet/allocnet/portmap"
	"github.com/allocnet/allocnet/selection"
	"github.com/allocnet/allocnet/state"
)

// portEngine has networks that map ports: "free" allows jobs to choose any,
// "closed" says nothing. Its plugin fails, and notes that it ran.
func portEngine(t *testing.T) (e *Engine, ran string) {
	t.Helper()
	dir := t.TempDir()
	ran = filepath.Join(dir, "ran")
	for name, text := range map[string]string{
		"plugin":      fmt.Sprintf("#!/bin/sh\n[ $CNI_COMMAND = ADD ] || exit 0\ntouch %s\necho '{\"cniVersion\": \"1.0.0\", \"code\": 7, \"msg\": \"refused\"}'\nexit 1\n", ran),
		"free.conf":   `{"cniVersion": "1.0.0", "name": "free", "type": "plugin", "capabilities": {"portMappings": true}, "allocnet": {"hostPorts": ["1-65535"]}}`,
		"closed.conf": `{"cniVersion": "1.0.0", "name": "closed", "type": "plugin", "capabilities": {"portMappings": true}}`,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	e, err := NewEngine(Config{ConfDirs: []string{dir}, PluginDirs: []string{dir}, StateDir: dir + "/state", CacheDir: dir + "/cache", PolicyFile: dir + "/none", Namespaces: newOwnNamespace()})
	if err != nil {
		t.Fatal(err)
	}
	return e, ran
}

// primary has a name of its own: the namespace is the machine's.
var primary = &selection.Element{Name: "closed", Interface: "main0"}

func chosen(network string, port int, hostIP string) selection.Element {
	return selection.Element{Name: network, PortMappings: []selection.PortMapping{{HostPort: allocation.PortRange{First: port, Last: port}, ContainerPort: 80, HostIP: hostIP}}}
}

// setupWith tells whether a plugin ran for a request.
func setupWith(t *testing.T, e *Engine, ran string, r Request) (attempted bool, err error) {
	t.Helper()
	r.ID, r.Netns = "x", ownNetns
	_, err = e.Setup(context.Background(), r)
	if err == nil {
		t.Fatal("the plugin fails, but Setup does not")
	}
	if _, err := e.Status(context.Background(), "x"); !errors.Is(err, state.ErrNotFound) {
		t.Errorf("on record: %v", err)
	}
	_, missing := os.Stat(ran)
	_ = os.Remove(ran)
	return missing == nil, err
}

// TestHostPortsNeedARule: a job chooses no port of the host unless a rule allows
// it. The operator, and the host's own defaults, need none.
func TestHostPortsNeedARule(t *testing.T) {
	e, ran := portEngine(t)
	element := chosen("closed", 4646, "")
	assigned := portmap.Port{Label: "http", HostPort: 4646, To: 80}
	for name, test := range map[string]struct {
		request Request
		denied  bool
	}{
		"a job's extra network": {Request{Networks: []selection.Element{element}}, true},
		"a job's primary":       {Request{Primary: &selection.Element{Name: "closed", Interface: "main0", PortMappings: element.PortMappings}}, true},
		"the host's default":    {Request{Primary: primary, Defaults: []selection.Element{element}}, false},
		"the operator":          {Request{Networks: []selection.Element{element}, Operator: true}, false},
		"a scheduler's port":    {Request{Primary: primary, Ports: []portmap.Port{assigned}}, false},
		"within the rule":       {Request{Networks: []selection.Element{chosen("free", 4646, "")}}, false},
	} {
		attempted, err := setupWith(t, e, ran, test.request)
		var denied *policy.DeniedError
		if errors.As(err, &denied) != test.denied || attempted == test.denied {
			t.Errorf("%s: %v, denied: want %t", name, err, test.denied)
		}
		if test.denied && denied != nil && (denied.Rule != "hostPorts" || !strings.Contains(err.Error(), "4646")) {
			t.Errorf("%s: %v, want the rule hostPorts and the port", name, err)
		}
	}
}

// TestListeners: a chosen port that a program of the host listens on is refused,
// an assigned one is the runtime's affair.
func TestListeners(t *testing.T) {
	e, ran := portEngine(t)
	tcp, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer tcp.Close()
	udp, err := net.ListenPacket("udp", "[::]:0")
	if err != nil {
		t.Fatal(err)
	}
	defer udp.Close()
	tcpPort, udpPort := tcp.Addr().(*net.TCPAddr).Port, udp.LocalAddr().(*net.UDPAddr).Port
	overUDP := chosen("free", udpPort, "")
	overUDP.PortMappings[0].Protocol = "udp"
	ofIPv4 := chosen("free", udpPort, "192.0.2.1") // a socket of all IPv6 addresses gets its packets, too
	ofIPv4.PortMappings[0].Protocol = "udp"
	for name, test := range map[string]struct {
		request Request
		refused bool
	}{
		"all addresses":        {Request{Networks: []selection.Element{chosen("free", tcpPort, "")}}, true},
		"the same address":     {Request{Networks: []selection.Element{chosen("free", tcpPort, "127.0.0.1")}}, true},
		"all of the family":    {Request{Networks: []selection.Element{chosen("free", tcpPort, "0.0.0.0")}}, true},
		"another address":      {Request{Networks: []selection.Element{chosen("free", tcpPort, "127.0.0.2")}}, false},
		"another family":       {Request{Networks: []selection.Element{chosen("free", tcpPort, "::1")}}, false},
		"UDP on all addresses": {Request{Networks: []selection.Element{overUDP}}, true},
		"UDP on one of IPv4":   {Request{Networks: []selection.Element{ofIPv4}}, true},
		"the operator's":       {Request{Primary: primary, Ports: []portmap.Port{{Label: "x", HostPort: tcpPort}}, Operator: true}, true},
		"assigned":             {Request{Primary: primary, Ports: []portmap.Port{{Label: "x", HostPort: tcpPort}}}, false},
	} {
		attempted, err := setupWith(t, e, ran, test.request)
		if (errdefs.Of(err) == errdefs.Conflict) != test.refused || attempted == test.refused {
			t.Errorf("%s: %v, refused: want %t", name, err, test.refused)
		}
		if test.refused && !strings.Contains(err.Error(), "listens on") {
			t.Errorf("%s: %q does not say what has the port", name, err)
		}
	}
}

// Nothing listens on these: the kernel gives no port below 1024 by itself.
const given, picked = 901, 902

// recordPorts puts an allocation on record that was given one port, and picked
// another.
func recordPorts(t *testing.T, e *Engine, id, boot string) {
	t.Helper()
	lock, err := e.env.Store.Lock(context.Background(), id)
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Unlock()
	mapping := func(port int) map[string]any {
		return map[string]any{"hostPort": port, "containerPort": 80, "protocol": "tcp"}
	}
	err = lock.Begin(state.Allocation{ID: id, Mode: state.ModeSetup, Netns: ownNetns, BootID: boot}, []state.Attachment{{
		Network: "free", Interface: "eth0", Batch: onrecord.SetupBatch, Phase: state.Attached, ConfList: []byte("{}"),
		CapabilityArgs: map[string]any{"portMappings": []any{mapping(given), mapping(picked)}},
		ChosenPorts:    []byte(fmt.Sprintf(`[{"hostPort": %d, "containerPort": 80, "protocol": "tcp"}]`, picked)),
	}})
	if err != nil {
		t.Fatal(err)
	}
}

// TestPortsOfOthers: what another allocation has on record is taken, except
// that a scheduler may assign a port again.
func TestPortsOfOthers(t *testing.T) {
	e, ran := portEngine(t)
	recordPorts(t, e, "other", "")
	port := func(number int) []portmap.Port {
		return []portmap.Port{{Label: "x", HostPort: number, Protocol: "tcp"}}
	}
	for name, test := range map[string]struct {
		request Request
		refused bool
	}{
		"chosen, other's assigned":   {Request{Networks: []selection.Element{chosen("free", given, "")}}, true},
		"chosen, other's chosen":     {Request{Networks: []selection.Element{chosen("free", picked, "")}}, true},
		"the operator's":             {Request{Primary: primary, Ports: port(given), Operator: true}, true},
		"assigned, other's chosen":   {Request{Primary: primary, Ports: port(picked)}, true},
		"assigned, other's assigned": {Request{Primary: primary, Ports: port(given)}, false},
		"chosen, free":               {Request{Networks: []selection.Element{chosen("free", 903, "")}}, false},
	} {
		attempted, err := setupWith(t, e, ran, test.request)
		if (errdefs.Of(err) == errdefs.Conflict) != test.refused || attempted == test.refused {
			t.Errorf("%s: %v, refused: want %t", name, err, test.refused)
		}
		if test.refused && !strings.Contains(err.Error(), "allocation other") {
			t.Errorf("%s: %q does not name the other allocation", name, err)
		}
	}
}

// portRange chooses a range of ports of TCP.
func portRange(first, last int) selection.Element {
	return selection.Element{Name: "free", PortMappings: []selection.PortMapping{{HostPort: allocation.PortRange{First: first, Last: last}}}}
}

// TestRangesOfPorts: a range is refused for each of its ports: that of a listener, that of another allocation, and that which no
// rule allows. Plugins, which know no ranges, get each port.
func TestRangesOfPorts(t *testing.T) {
	e, ran := portEngine(t)
	recordPorts(t, e, "other", "")
	for name, test := range map[string]struct {
		element selection.Element
		refused bool
	}{
		"from the other's": {portRange(picked, 910), true}, "up to the other's": {portRange(890, given), true}, "around it": {portRange(890, 910), true}, "beside it": {portRange(903, 910), false},
	} {
		attempted, err := setupWith(t, e, ran, Request{Networks: []selection.Element{test.element}})
		if (errdefs.Of(err) == errdefs.Conflict) != test.refused || attempted == test.refused {
			t.Errorf("%s: %v, refused: want %t", name, err, test.refused)
		}
	}
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	port := listener.Addr().(*net.TCPAddr).Port
	if attempted, err := setupWith(t, e, ran, Request{Networks: []selection.Element{portRange(port-1, port)}}); attempted || errdefs.Of(err) != errdefs.Conflict || !strings.Contains(err.Error(), "listens on") {
		t.Errorf("a listener: %v", err)
	}
	many := portRange(2000, 3001)
	if attempted, err := setupWith(t, e, ran, Request{Networks: []selection.Element{many}}); attempted || errdefs.Of(err) != errdefs.Refused || !strings.Contains(err.Error(), "plugins are executed") {
		t.Errorf("more than plugins get: %v", err)
	}
	many.Name = "closed"
	var denied *policy.DeniedError
	if _, err := setupWith(t, e, ran, Request{Networks: []selection.Element{many}}); !errors.As(err, &denied) || !strings.Contains(err.Error(), "2000-3001") {
		t.Errorf("without a rule: %v", err)
	}
}

// TestPortsOfAnEarlierBoot: a record waits for its teardown, but its port is
// free.
func TestPortsOfAnEarlierBoot(t *testing.T) {
	e, ran := portEngine(t)
	boot, err := state.BootID()
	if err == nil {
		err = e.env.Store.SetCleanedBoot(boot) // its teardown is another's affair
	}
	if err != nil {
		t.Fatal(err)
	}
	recordPorts(t, e, "past", "earlier")
	if attempted, err := setupWith(t, e, ran, Request{Networks: []selection.Element{chosen("free", picked, "")}}); !attempted {
		t.Errorf("%v, want the port", err)
	}
}

// TestPortsUnknown: while the record of another allocation is damaged, no port can
// be chosen; assigned ones go on.
func TestPortsUnknown(t *testing.T) {
	e, ran := portEngine(t)
	damage(t, e, state.Allocation{ID: "other", Mode: state.ModeSetup, Netns: ownNetns}, false, []byte("{}"))
	attempted, err := setupWith(t, e, ran, Request{Networks: []selection.Element{chosen("free", 903, "")}})
	var damaged *DamagedRecordError
	if attempted || !errors.As(err, &damaged) || damaged.Allocation != "other" {
		t.Errorf("chosen: %v, want *DamagedRecordError of the other allocation", err)
	}
	if attempted, err := setupWith(t, e, ran, Request{Primary: primary, Ports: []portmap.Port{{Label: "x", HostPort: 903}}}); !attempted {
		t.Errorf("assigned: %v, want the port", err)
	}
}

// TestPortsStayLockedUntilRecorded: no other call looks for ports before those of
// this one are on record.
func TestPortsStayLockedUntilRecorded(t *testing.T) {
	e, ran := portEngine(t)
	written := 0
	e.env.Store.Intercept(func(op, path string, change func() error) error {
		if strings.Contains(path, "/allocations/x/") && written == 0 {
			written++
			ctx, stop := context.WithTimeout(t.Context(), 20*time.Millisecond)
			defer stop()
			if unlock, err := e.env.Store.LockPorts(ctx, false); err == nil {
				unlock()
				t.Error("the lock was released before the record was written")
			}
		}
		return change()
	})
	if attempted, err := setupWith(t, e, ran, Request{Networks: []selection.Element{chosen("free", 903, "")}}); !attempted || written == 0 {
		t.Fatal(err, written)
	}
	if unlock, err := e.env.Store.LockPorts(t.Context(), true); err != nil {
		t.Error(err)
	} else {
		unlock()
	}
}
