// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package cluster

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/allocnet/allocnet/agent/api"
	"github.com/allocnet/allocnet/cmd/allocnet/cli"
	"github.com/allocnet/allocnet/internal/echo"
)

// pinged runs the command with hosts of which 10.0.0.2 replies, and returns what was sent.
func pinged(t *testing.T, asJSON bool, args ...string) (text string, sent []string, err error) {
	t.Helper()
	p := spanned()
	p.Nodes[1].Probe = &api.ClusterProbe{Target: "10.0.1.3", Device: "vx-web"}
	p.Nodes = append(p.Nodes, api.ClusterNode{Name: "c4", Address: "10.0.0.4", Routes: []api.ClusterRoute{{Block: "10.91.2.0/26", State: "refused"}}},
		api.ClusterNode{Name: "c5", Address: p.Address, Routes: []api.ClusterRoute{{Block: "10.91.3.0/26", State: "replaced"}}})
	var mu sync.Mutex
	command := &ping{AgentSocket: cli.AgentSocket{Path: answering(t, api.Cluster{Pools: []api.ClusterPool{p}})}, count: 2}
	command.send = func(_ context.Context, r echo.Request) (time.Duration, error) {
		mu.Lock()
		defer mu.Unlock()
		sent = append(sent, fmt.Sprintf("%s through %q from %s", r.Target, r.Device, r.Source))
		if r.Device != "" {
			return 0, echo.ErrSilent
		}
		return time.Duration(len(sent)) * time.Millisecond, nil
	}
	cmd := &cobra.Command{}
	var out bytes.Buffer
	cmd.SetContext(t.Context())
	cmd.SetOut(&out)
	err = command.run(cmd, &cli.Settings{JSON: asJSON}, args)
	slices.Sort(sent)
	return out.String(), slices.Compact(sent), err
}

// TestClusterPing: requests go the way of the packets, and a host without a reply fails the command.
func TestClusterPing(t *testing.T) {
	if cli.RequireRoot() != nil {
		if _, _, err := pinged(t, false); err == nil || cli.ExitCode(err) != cli.ExitRefused {
			t.Errorf("without root: %v", err)
		}
		return
	}
	text, sent, err := pinged(t, false)
	if want := `10.0.0.2 through "" from invalid IP, 10.0.1.3 through "vx-web" from 10.0.0.1`; strings.Join(sent, ", ") != want {
		t.Errorf("sent %s, want %s", sent, want)
	}
	if err == nil || cli.ExitCode(err) != cli.ExitFailed {
		t.Errorf("a host without a reply: %v", err)
	}
	for _, line := range []string{
		"POOL  NODE  TARGET    THROUGH  SENT  RECEIVED  LEAST", "web   c3    10.0.1.3  vx-web   2     0         -      -", "node c3: no reply\n",
		"node c4: there is no route through which it would reply\n",
	} {
		if !strings.Contains(text, line) {
			t.Errorf("no %q in\n%s", line, text)
		}
	}
	if strings.Contains(text, "c5") {
		t.Errorf("the host that this one replaces is in\n%s", text)
	}
	for _, name := range []string{"c2", "n2", "10.0.0.2"} {
		text, sent, err = pinged(t, true, name)
		var got []pingJSON
		if failed := json.Unmarshal([]byte(text), &got); failed != nil || err != nil || len(got) != 1 || len(sent) != 1 {
			t.Fatalf("%s: %v, %v, sent %s\n%s", name, failed, err, sent, text)
		}
		if r := got[0]; r.Sent != 2 || r.Received != 2 || r.Least != 0.001 || r.Mean != 0.0015 || r.Most != 0.002 {
			t.Errorf("%s: %+v", name, r)
		}
	}
	if _, _, err := pinged(t, false, "c9"); err == nil || !strings.Contains(err.Error(), `no node "c9" has blocks`) || cli.ExitCode(err) != cli.ExitRefused {
		t.Errorf("an unknown node: %v", err)
	}
	if code, _, errs := runs(t, "cluster", "ping", "--count", "0"); code != cli.ExitRefused || !strings.Contains(errs, "--count 0: want 1 or more") {
		t.Errorf("--count 0: exit code %d, %s", code, errs)
	}
	socket := answering(t, api.Cluster{Pools: []api.ClusterPool{spanned()}})
	if _, out, _ := runs(t, "__complete", "cluster", "ping", "--socket", socket, "c"); !strings.HasPrefix(out, "c2\nc3\n") {
		t.Errorf("completes %q", out)
	}
}
