// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package store

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/allocnet/allocnet/cluster/ipam/nomadstore"
	"github.com/allocnet/allocnet/cluster/rest"
	"github.com/allocnet/allocnet/internal/sandbox"
	"github.com/allocnet/allocnet/internal/sandbox/nomadagent"
)

func config(name, ip string) string {
	return nomadagent.Config{
		DataDir: filepath.Join(dir, name, "data"),
		Address: ip,
		Options: `"driver.allowlist" = "raw_exec"`,
		More: fmt.Sprintf(`
name = %q
limits {
  http_max_conns_per_client = 0 # all simulated hosts have one address
}
acl {
  enabled = true
}`, name)}.String()
}

// server is a Nomad server, which is a client, too.
type server struct {
	*nomadagent.Agent
	// address is that of its API.
	address string
	// root is a management token.
	root string
}

// start starts a server at an address of the loopback interface, with a policy for the pools, and grants anonymous requests everything
// but variables.
func start(t *testing.T, name, ip string) *server {
	t.Helper()
	if err := os.MkdirAll(filepath.Join(dir, name, "data"), 0o755); err != nil {
		t.Fatal(err)
	}
	s := &server{Agent: nomadagent.NewAgent(t, filepath.Join(dir, name), config(name, ip), "", "ERROR|WARN"), address: "http://" + ip + ":4646"}
	s.Address = ip
	ready := make(chan struct{})
	go func() { // Start waits for the rights
		defer close(ready)
		var root struct{ SecretID string }
		s.Await("ACLs are bootstrapped", func() bool { return s.request(http.MethodPost, "acl/bootstrap", nil, &root) == nil })
		s.root = root.SecretID
		s.policy("anonymous", `namespace "*" { policy = "write" } node { policy = "read" } agent { policy = "read" }`)
		s.policy("pools", nomadstore.Policy("default"))
	}()
	s.Start()
	<-ready
	return s
}

func (s *server) policy(name, rules string) {
	s.Helper()
	s.Await("policy "+name, func() bool {
		return s.request(http.MethodPost, "acl/policy/"+name, map[string]string{"Name": name, "Rules": rules}, nil) == nil
	})
}

// token makes a token with policies. It returns a file with it, and its accessor.
func (s *server) token(policies ...string) (file, accessor string) {
	s.Helper()
	var token struct{ SecretID, AccessorID string }
	if err := s.request(http.MethodPost, "acl/token", map[string]any{"Name": "test", "Type": "client", "Policies": policies}, &token); err != nil {
		s.Fatal(err)
	}
	file = filepath.Join(s.TempDir(), "token")
	sandbox.WriteFile(s, file, token.SecretID+"\n")
	return file, token.AccessorID
}

// store returns a store with a token; an empty file: without.
func (s *server) store(tokenFile string) *nomadstore.Store {
	s.Helper()
	client, err := rest.New(rest.Config{Address: s.address, TokenFile: tokenFile})
	if err != nil {
		s.Fatal(err)
	}
	return nomadstore.New(client, "")
}

// request is one of the operator. The answer is bytes, or JSON.
func (s *server) request(method, path string, body, answer any) error {
	data, isBytes := body.([]byte)
	if body != nil && !isBytes {
		data, _ = json.Marshal(body)
	}
	request, err := http.NewRequest(method, s.address+"/v1/"+path, bytes.NewReader(data))
	if err != nil {
		return err
	}
	request.Header.Set("X-Nomad-Token", s.root)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	data, err = io.ReadAll(response.Body)
	if response.StatusCode >= http.StatusBadRequest {
		err = fmt.Errorf("%s %s: %s: %s", method, path, response.Status, data)
	}
	if bytes, ok := answer.(*[]byte); ok {
		*bytes = data
	} else if answer != nil && err == nil {
		err = json.Unmarshal(data, answer)
	}
	return err
}

// raftIndex is the number of Raft writes up to now.
func (s *server) raftIndex() uint64 {
	s.Helper()
	var self struct{ Stats map[string]map[string]string }
	err := s.request(http.MethodGet, "agent/self", nil, &self)
	index, invalid := strconv.ParseUint(self.Stats["raft"]["last_log_index"], 10, 64)
	if err := errors.Join(err, invalid); err != nil {
		s.Fatal(err)
	}
	return index
}
