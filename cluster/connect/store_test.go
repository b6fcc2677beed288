// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package connect_test

import (
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"

	"github.com/allocnet/allocnet/cluster/connect"
	"github.com/allocnet/allocnet/cluster/ipam/filestore"
	"github.com/allocnet/allocnet/cluster/ipam/nomadstore"
	"github.com/allocnet/allocnet/internal/sandbox"
)

// TestStore: which store a configuration means.
func TestStore(t *testing.T) {
	agent := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(`{"stats": {"client": {"node_id": "n"}}}`))
	}))
	t.Cleanup(agent.Close)
	nomad := "nomad {\n address = \"" + agent.URL + "\"\n events = true\n}\n"
	for text, wantNomad := range map[string]bool{
		"":                                     false,
		nomad:                                  false,
		"ipam {\n store = \"file\"\n}":         false,
		nomad + "ipam {\n store = \"file\"\n}": false,
		nomad + "ipam {}\nsocket {\n path = \"/x\"\n}\n": true,
	} {
		dir := t.TempDir()
		sandbox.WriteFile(t, filepath.Join(dir, "a.hcl"), text)
		store, host, err := connect.New(dir, t.TempDir()).Open()
		_, isFile := store.(*filestore.Store)
		_, isNomad := store.(*nomadstore.Store)
		if err != nil || isNomad != wantNomad || isFile == wantNomad {
			t.Errorf("%q: store %T, %v", text, store, err)
		}
		if (host.NodeID != "") != wantNomad || (host.NodeName != "") != wantNomad || len(host.Instance) != 32 || host.Boot == "" {
			t.Errorf("%q: host %+v", text, host)
		}
	}
	if store, _, err := connect.New("/missing", t.TempDir()).Open(); store == nil || err != nil {
		t.Errorf("without a configuration: store %T, %v", store, err)
	}
}
