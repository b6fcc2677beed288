// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package connect

import (
	"errors"
	"fmt"
	"net/http"
	"testing"

	"github.com/allocnet/allocnet/cluster/ipam"
)

// TestNodes: all pages are read, and a node whose API has a name has no address.
func TestNodes(t *testing.T) {
	a := newAgent(t)
	inner := a.Config.Handler
	a.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path != "/v1/nodes":
			inner.ServeHTTP(w, r)
		case r.FormValue("next_token") == "":
			w.Header().Set("X-Nomad-NextToken", nodeB)
			_, _ = w.Write([]byte(`[{"ID": "` + nodeA + `", "Name": "n1", "Address": "10.0.0.1"}]`))
		default:
			_, _ = w.Write([]byte(`[{"ID": "` + nodeB + `", "Name": "n2", "Address": "n2.example.net"}]`))
		}
	})
	nodes, err := connected(t, a).Nodes(t.Context())
	want := "[{" + nodeA + " n1 [10.0.0.1]} {" + nodeB + " n2 []}]"
	if got := fmt.Sprint(nodes); got != want || err != nil {
		t.Errorf("%s, %v, want %s", got, err, want)
	}
}

// TestNode: both of Nomad's addresses of a node count, and nothing else does.
func TestNode(t *testing.T) {
	a := newAgent(t)
	c := connected(t, a)
	path := "/v1/node/" + nodeB
	for answer, want := range map[string]string{
		`{"ID": "` + nodeB + `", "Name": "n2", "HTTPAddr": "10.0.0.9:4646", "Attributes": {"unique.network.ip-address": "10.0.0.2"}}`: "{" + nodeB + " n2 [10.0.0.2 10.0.0.9]}",
		`{"ID": "` + nodeB + `", "HTTPAddr": "10.0.0.2:4646", "Attributes": {"unique.network.ip-address": "10.0.0.2"}}`:               "{" + nodeB + "  [10.0.0.2]}",
		`{"ID": "` + nodeB + `", "HTTPAddr": "n2.example.net:4646"}`:                                                                  "{" + nodeB + "  []}",
		`{"ID": "` + nodeA + `", "HTTPAddr": "10.0.0.2:4646"}`:                                                                        "{  []}",
	} {
		a.set(path, answer)
		if got, err := c.Node(t.Context(), nodeB); fmt.Sprint(got) != want || err != nil {
			t.Errorf("%s: %v, %v, want %s", answer, got, err, want)
		}
	}
	a.set(path, "")
	if _, err := c.Node(t.Context(), nodeB); !errors.Is(err, ipam.ErrRefused) {
		t.Errorf("a token without rights: %v", err)
	}
	for _, id := range []string{nodeA, "../agent/self", ""} {
		if got, err := c.Node(t.Context(), id); got.ID != "" || err != nil {
			t.Errorf("unknown %q: %v, %v", id, got, err)
		}
	}
}

// TestSelf: this host's node is the one that the store has.
func TestSelf(t *testing.T) {
	a := newAgent(t)
	if n, err := connected(t, a).Self(t.Context()); n.ID != "" || err != nil {
		t.Errorf("with a store in files: %v, %v", n, err)
	}
	c := New(configDir(t, "nomad {\n address = \""+a.URL+"\"\n}\nipam {}"), t.TempDir())
	if _, err := c.Self(t.Context()); !errors.Is(err, ipam.ErrUnavailable) {
		t.Errorf("a node that Nomad does not know: %v", err)
	}
	a.set("/v1/node/"+nodeA, `{"ID": "`+nodeA+`", "Attributes": {"unique.network.ip-address": "10.0.0.1"}}`)
	if got, err := c.Self(t.Context()); got.ID != nodeA || len(got.Addresses) != 1 || err != nil {
		t.Errorf("%v, %v", got, err)
	}
}
