// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package nomadstore_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/allocnet/allocnet/cluster/ipam"
	"github.com/allocnet/allocnet/cluster/ipam/nomadstore"
	"github.com/allocnet/allocnet/cluster/rest"
)

// TestNamespace: nothing is written into a namespace that Nomad says is missing. Whether it is
// there is asked until it is known, or the token is known to have no right to ask.
func TestNamespace(t *testing.T) {
	for _, test := range []struct {
		name   string
		status int
		body   string
		want   error
		asked  int
	}{
		{"exists", 200, `{"Name": "net"}`, nil, 1},
		{"no right", 403, "Permission denied", nil, 1},
		{"missing", 404, "Namespace not found", ipam.ErrNoNamespace, 2},
		{"another server", 404, "404 page not found", nil, 2},
		{"no leader", 500, "No cluster leader", nil, 2},
	} {
		var asked int
		var others []string
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			switch {
			case r.URL.Path == "/v1/namespace/net":
				asked++
				w.WriteHeader(test.status)
				_, _ = w.Write([]byte(test.body))
			case r.Method == http.MethodPut:
				others = append(others, "PUT")
				_, _ = w.Write([]byte(`{"Path": "` + path + `", "ModifyIndex": 9}`))
			default:
				others = append(others, "list")
				_, _ = w.Write([]byte(`[{"Path": "` + path + `", "ModifyIndex": 9}]`))
			}
		}))
		defer server.Close()
		client, err := rest.New(rest.Config{Address: server.URL})
		if err != nil {
			t.Fatal(err)
		}
		store := nomadstore.New(client, "net")
		_, listed := store.List(t.Context(), "allocnet/", 0)
		_, created := store.Create(t.Context(), path, []byte("x"))
		for _, err := range []error{listed, created} {
			if !errors.Is(err, test.want) || err != nil && (!errors.Is(err, ipam.ErrRefused) || !strings.Contains(err.Error(), "nomad namespace apply net")) {
				t.Errorf("%s: error %v, want %v", test.name, err, test.want)
			}
		}
		if want := map[bool]string{true: "list PUT"}[test.want == nil]; asked != test.asked || strings.Join(others, " ") != want {
			t.Errorf("%s: asked %d times, then %q; want %d and %q", test.name, asked, others, test.asked, want)
		}
	}
}
