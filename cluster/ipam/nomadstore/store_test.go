// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package nomadstore_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/allocnet/allocnet/cluster/ipam"
	"github.com/allocnet/allocnet/cluster/ipam/nomadstore"
	"github.com/allocnet/allocnet/cluster/rest"
	"github.com/allocnet/allocnet/internal/errdefs"
)

const path = "allocnet/ipam/1/lab/pool"

// serving returns a store on a server with the answers.
func serving(t testing.TB, handler http.HandlerFunc) *nomadstore.Store {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	client, err := rest.New(rest.Config{Address: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	return nomadstore.New(client, "")
}

// answering returns a store on a server with one answer.
func answering(t testing.TB, status int, body string) *nomadstore.Store {
	t.Helper()
	return serving(t, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body))
	})
}

// TestStatuses: each answer is the error that says what is known of the outcome.
func TestStatuses(t *testing.T) {
	const conflict = `{"Path": "` + path + `", "ModifyIndex": 7}`
	for _, test := range []struct {
		status int
		body   string
		want   error
	}{
		{200, `{"Path": "` + path + `", "ModifyIndex": 9, "Items": {"entry": "x"}}`, nil},
		{200, `{"Path": "` + path + `", "ModifyIndex": 9, "Items": {"other": "x"}}`, nil},
		{200, `{"Path": "` + path + `", "Items": {"entry": "x"}}`, ipam.ErrUnavailable},
		{200, `{"Path": "other", "ModifyIndex": 9, "Items": {"entry": "x"}}`, ipam.ErrUnavailable},
		{200, `{"Path": "` + path + `", "ModifyIndex": -1}`, ipam.ErrUnavailable},
		{200, `<html>`, ipam.ErrUnavailable},
		{200, ``, ipam.ErrUnavailable},
		{302, ``, ipam.ErrUnavailable},
		{400, `invalid path`, ipam.ErrRefused},
		{403, `Permission denied`, ipam.ErrRefused},
		{404, `variable not found`, ipam.ErrNotFound},
		{404, `404 page not found`, ipam.ErrUnavailable},
		{409, conflict, ipam.ErrConflict},
		{409, `cas error: decrypt`, ipam.ErrUnavailable},
		{429, ``, ipam.ErrUnavailable},
		{500, `No cluster leader`, ipam.ErrUnavailable},
		{500, `rpc error: Permission denied to dial`, ipam.ErrUnavailable},
	} {
		store := answering(t, test.status, test.body)
		_, got := store.Get(t.Context(), path)
		_, created := store.Create(t.Context(), path, []byte("x"))
		_, updated := store.Update(t.Context(), path, []byte("x"), 7)
		for what, err := range map[string]error{"Get": got, "Create": created, "Update": updated} {
			if !errors.Is(err, test.want) || err != nil && !strings.Contains(err.Error(), path) {
				t.Errorf("%s: %d %s: error %v, want %v", what, test.status, test.body, err, test.want)
			}
			if kind := errdefs.Of(err); errors.Is(err, ipam.ErrUnavailable) && kind != errdefs.Unavailable {
				t.Errorf("%s: %d %s: the kind of the error is %v", what, test.status, test.body, kind)
			}
		}
	}
}

// TestNotStored: what no Nomad stores is refused before it is sent, because 1.6.2 answers as a server
// that has failed.
func TestNotStored(t *testing.T) {
	store := serving(t, func(w http.ResponseWriter, r *http.Request) {
		t.Errorf("%s %s was sent", r.Method, r.URL.Path)
		w.WriteHeader(http.StatusInternalServerError)
	})
	for _, test := range []struct{ path, content string }{
		{"allocnet/a.b", "x"}, {"allocnet/" + strings.Repeat("a", 120), "x"}, {"", "x"}, {"allocnet/a b", "x"},
		{path, strings.Repeat("x", 64<<10)}, {path, "\xff"},
	} {
		_, created := store.Create(t.Context(), test.path, []byte(test.content))
		_, updated := store.Update(t.Context(), test.path, []byte(test.content), 7)
		for _, err := range []error{created, updated} {
			if !errors.Is(err, ipam.ErrRefused) || !strings.Contains(err.Error(), test.path) {
				t.Errorf("%.200q with %d bytes: error %v, want %v", test.path, len(test.content), err, ipam.ErrRefused)
			}
		}
	}
}

// TestRefused: the error of a token without rights has the policy that it needs.
func TestRefused(t *testing.T) {
	_, err := answering(t, 403, "Permission denied").Create(t.Context(), path, []byte("x"))
	if !errors.Is(err, ipam.ErrRefused) || !strings.Contains(err.Error(), nomadstore.Policy("default")) {
		t.Errorf("error %v, want the policy %s in it", err, nomadstore.Policy("default"))
	}
}

// TestLockedIsNotDeleted: to a delete of a locked variable and of a missing one Nomad gives the
// same answer.
func TestLockedIsNotDeleted(t *testing.T) {
	for status, want := range map[int]error{404: nil, 200: ipam.ErrConflict, 500: ipam.ErrUnavailable} {
		store := serving(t, func(w http.ResponseWriter, r *http.Request) {
			switch {
			case r.Method == http.MethodDelete:
				w.WriteHeader(http.StatusConflict)
				_, _ = w.Write([]byte(`{"Path": "` + path + `", "ModifyIndex": 0}`))
			case status == http.StatusOK:
				_, _ = w.Write([]byte(`{"Path": "` + path + `", "ModifyIndex": 9}`))
			default:
				w.WriteHeader(status)
				_, _ = w.Write([]byte("variable not found"))
			}
		})
		if err := store.Delete(t.Context(), path, 7); !errors.Is(err, want) {
			t.Errorf("status %d: error %v, want %v", status, err, want)
		}
	}
}

// TestPages: a list has the variables of all pages, and the index of the first: what changes
// after that page was read ends the next wait.
func TestPages(t *testing.T) {
	var queries []string
	store := serving(t, func(w http.ResponseWriter, r *http.Request) {
		queries = append(queries, r.URL.RawQuery)
		page, _ := strconv.Atoi(r.URL.Query().Get("next_token"))
		w.Header().Set("X-Nomad-Index", strconv.Itoa(100+page))
		if page < 2 {
			w.Header().Set("X-Nomad-NextToken", strconv.Itoa(page+1))
		}
		_, _ = fmt.Fprintf(w, `[{"Path": "p/%d", "ModifyIndex": %d}]`, 9-page, page+1)
	})
	listing, err := store.List(t.Context(), "p/", 99)
	want := ipam.Listing{Index: 100, Entries: []ipam.Entry{{Path: "p/7", Index: 3}, {Path: "p/8", Index: 2}, {Path: "p/9", Index: 1}}}
	if err != nil || fmt.Sprint(listing) != fmt.Sprint(want) {
		t.Errorf("listing %v, %v, want %v", listing, err, want)
	}
	wantQueries := []string{
		"index=99&namespace=default&per_page=1000&prefix=p%2F&wait=10s",
		"namespace=default&next_token=1&per_page=1000&prefix=p%2F",
		"namespace=default&next_token=2&per_page=1000&prefix=p%2F",
	}
	if !slices.Equal(queries, wantQueries) {
		t.Errorf("queries %q, want %q", queries, wantQueries)
	}
}

// TestEndlessPages: a list ends, whatever others write.
func TestEndlessPages(t *testing.T) {
	store := serving(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Nomad-NextToken", "again")
		_, _ = w.Write([]byte("[]"))
	})
	if _, err := store.List(t.Context(), "p/", 0); !errors.Is(err, ipam.ErrUnavailable) || !strings.Contains(err.Error(), "more than 100000 variables") {
		t.Errorf("error %v", err)
	}
}

// TestEmptyList: an empty list of a token that may not read there is no list.
func TestEmptyList(t *testing.T) {
	for status, want := range map[int]error{404: nil, 403: ipam.ErrRefused, 500: ipam.ErrUnavailable} {
		store := serving(t, func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/v1/vars" {
				_, _ = w.Write([]byte("[]"))
				return
			}
			w.WriteHeader(status)
			_, _ = w.Write([]byte("variable not found"))
		})
		listing, err := store.List(t.Context(), "p/", 0)
		if !errors.Is(err, want) || err == nil && listing.Index == 0 {
			t.Errorf("status %d: %v, error %v, want %v", status, listing, err, want)
		}
	}
}

// TestText: what is no text cannot be a variable.
func TestText(t *testing.T) {
	if _, err := answering(t, 200, "").Create(t.Context(), path, []byte("\xff")); !errors.Is(err, ipam.ErrRefused) {
		t.Errorf("error %v", err)
	}
}

// FuzzAnswers: any answer is an error or an entry of the path, and a listing of the prefix.
func FuzzAnswers(f *testing.F) {
	f.Add(200, `{"Path": "`+path+`", "ModifyIndex": 9, "Items": {"entry": "{\"version\":1}"}}`)
	f.Add(200, `[{"Path": "`+path+`", "ModifyIndex": 9}, {"Path": "`+path+`/x"}]`)
	f.Add(200, `[]`)
	f.Add(403, `Permission denied`)
	f.Add(409, `{"Path": "`+path+`"}`)
	var status int
	var body string
	store := serving(f, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body))
	})
	f.Fuzz(func(t *testing.T, s int, text string) {
		status, body = 200+max(s, -s)%400, text // those that net/http can send
		entry, err := store.Get(t.Context(), path)
		if err == nil && (entry.Path != path || entry.Index == 0) {
			t.Errorf("Get: %v", entry)
		}
		listing, err := store.List(t.Context(), path, 0)
		for _, entry := range listing.Entries {
			if err == nil && !strings.HasPrefix(entry.Path, path) {
				t.Errorf("List: %v", entry)
			}
		}
		if err == nil && listing.Index == 0 {
			t.Error("List: no index")
		}
		if index, err := store.Create(t.Context(), path, []byte(text)); err == nil && index == 0 {
			t.Error("Create: no index")
		}
		_ = store.Delete(t.Context(), path, 9)
	})
}

// TestStale: any server answers, unless it has not heard of the leader for long: then the leader
// is asked, which does not wait.
func TestStale(t *testing.T) {
	var queries []string
	contact := "4999"
	store := serving(t, func(w http.ResponseWriter, r *http.Request) {
		queries = append(queries, r.URL.RawQuery)
		if w.Header().Set("X-Nomad-Index", "7"); r.URL.Query().Has("stale") {
			w.Header().Set("X-Nomad-LastContact", contact)
		}
		if r.URL.Path == "/v1/vars" {
			_, _ = w.Write([]byte(`[{"Path": "p/1", "ModifyIndex": 7}]`))
			return
		}
		_, _ = w.Write([]byte(`{"Path": "` + path + `", "ModifyIndex": 7, "Items": {"entry": "x"}}`))
	}).Stale()
	read := func() {
		t.Helper()
		entry, err := store.Get(t.Context(), path)
		listing, errList := store.List(t.Context(), "p/", 3)
		if errors.Join(err, errList) != nil || entry.Index != 7 || listing.Index != 7 {
			t.Errorf("entry %v, listing %v, %v, %v", entry, listing, err, errList)
		}
	}
	read()
	contact = "5001"
	read()
	want := []string{
		"namespace=default&stale=", "index=3&namespace=default&per_page=1000&prefix=p%2F&stale=&wait=10s",
		"namespace=default&stale=", "namespace=default",
		"index=3&namespace=default&per_page=1000&prefix=p%2F&stale=&wait=10s", "namespace=default&per_page=1000&prefix=p%2F",
	}
	if !slices.Equal(queries, want) {
		t.Errorf("queries %q, want %q", queries, want)
	}
}
