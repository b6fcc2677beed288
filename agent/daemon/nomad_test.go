// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package daemon

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"

	"github.com/allocnet/allocnet/agent/config"
)

// TestNomad: an operator reads that jobs select networks which no one reads, only if no one does.
func TestNomad(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(`[{"ID": "a1", "JobID": "db", "TaskGroup": "g", "ClientStatus": "running",
			"Job": {"TaskGroups": [{"Name": "g", "Meta": {"allocnet.networks": "storage"}}]}}]`))
	}))
	t.Cleanup(server.Close)
	for _, on := range []bool{false, true} {
		var log strings.Builder
		c, err := newNomad(config.Config{StateDir: t.TempDir(), Nomad: &config.Nomad{Address: server.URL, NodeID: "n1", JobNetworks: on}}, hclog.New(&hclog.LoggerOptions{Output: &log}))
		if err != nil {
			t.Fatal(err)
		}
		if live, err := c.Live(t.Context()); err != nil || !live["a1"] {
			t.Errorf("%v, %v", live, err)
		}
		if told := strings.Contains(log.String(), "set job_networks = true"); told == on {
			t.Errorf("job_networks = %t, and logged is %s", on, &log)
		}
	}
}
