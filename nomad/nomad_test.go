// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package nomad

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/nomad/api"

	"github.com/allocnet/allocnet/internal/errdefs"
	"github.com/allocnet/allocnet/policy"
	"github.com/allocnet/allocnet/selection"
)

const (
	allocID = "11111111-2222-3333-4444-555555555555"
	nodeID  = "99999999-2222-3333-4444-555555555555"
)

// server is a Nomad agent whose answers are values or handlers, by path.
type server struct {
	*httptest.Server
	mu      sync.Mutex
	answers map[string]any
	tokens  []string
}

func serve(t *testing.T, answers map[string]any) *server {
	t.Helper()
	s := &server{answers: answers}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	answer, ok := s.answers[r.URL.Path]
	s.tokens = append(s.tokens, r.Header.Get("X-Nomad-Token"))
	s.mu.Unlock()
	if handle, is := answer.(func(http.ResponseWriter, *http.Request)); is {
		handle(w, r)
		return
	}
	if !ok {
		http.Error(w, "not found", http.StatusNotFound)
		return
	}
	_ = json.NewEncoder(w).Encode(answer)
}

func newClient(t *testing.T, address string) *Client {
	t.Helper()
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := New(Config{Address: address, TokenFile: token, NetworksDir: filepath.Join(t.TempDir(), "job-networks")})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func self() map[string]any {
	return map[string]any{"stats": map[string]any{"client": map[string]string{"node_id": nodeID}}}
}

func TestLive(t *testing.T) {
	allocations := []*api.Allocation{
		{ID: "running", Name: "web.g[12]", ClientStatus: "running"}, {ID: "pending", ClientStatus: "pending"}, {ID: "lost", ClientStatus: "lost"},
		{ID: "unknown", ClientStatus: "unknown"}, {ID: "complete", Name: "web.g[3]", ClientStatus: "complete"}, {ID: "failed", ClientStatus: "failed"},
	}
	s := serve(t, map[string]any{
		"/v1/agent/self":                      self(),
		"/v1/node/" + nodeID:                  api.Node{ID: nodeID},
		"/v1/node/" + nodeID + "/allocations": allocations,
	})
	c := newClient(t, s.URL)
	got, err := c.Live(context.Background())
	want := map[string]bool{"running": true, "pending": true, "lost": true, "unknown": true}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v\n%s", err, diff)
	}
	if diff := cmp.Diff(map[string]int{"running": 12}, c.Indexes()); diff != "" {
		t.Error(diff)
	}
	if _, err := c.Live(context.Background()); err != nil || c.Renumbered() != 1 {
		t.Errorf("%v, the same numbers have changed %d times, want the first time only", err, c.Renumbered())
	}
	s.mu.Lock()
	s.answers["/v1/node/"+nodeID+"/allocations"] = append(allocations[2:], &api.Allocation{ID: "running", Name: "web.g[4]", ClientStatus: "running"})
	s.mu.Unlock()
	if _, err := c.Live(context.Background()); err != nil || c.Renumbered() != 2 || c.Indexes()["running"] != 4 {
		t.Errorf("%v, numbers %v have changed %d times, want twice", err, c.Indexes(), c.Renumbered())
	}
	if ended := c.Ended(); !slices.Equal(ended, []string{"complete", "failed"}) {
		t.Errorf("ended: %q", ended)
	}
	if slices.ContainsFunc(s.tokens, func(token string) bool { return token != "secret" }) {
		t.Errorf("tokens %q", s.tokens)
	}
}

// TestUnreadJobs: a job that selects networks which no one reads is logged once.
func TestUnreadJobs(t *testing.T) {
	list := func(ids ...string) (all []*api.Allocation) {
		for _, id := range ids {
			a := allocation([]*api.NetworkResource{{Mode: "cni/m"}}, map[string]string{metaKey: "storage"})
			a.ID, a.ClientStatus = id, api.AllocClientStatusRunning
			all = append(all, a)
		}
		plain, ended := allocation([]*api.NetworkResource{{Mode: "cni/m"}}, nil), allocation(nil, map[string]string{metaKey: "storage"})
		plain.ID, ended.ID, ended.ClientStatus = "plain", "ended", api.AllocClientStatusComplete
		return append(all, plain, ended, &api.Allocation{ID: "without a job"})
	}
	s := serve(t, map[string]any{"/v1/agent/self": self()})
	for reads, want := range map[bool][]string{false: {"a1", "a2", "a1"}, true: nil} {
		var log bytes.Buffer
		c, err := New(Config{Address: s.URL, JobNetworks: reads, Logger: hclog.New(&hclog.LoggerOptions{Output: &log})})
		if err != nil {
			t.Fatal(err)
		}
		for _, ids := range [][]string{{"a1"}, {"a1", "a2"}, {"a2"}, {"a1", "a2"}} { // a1 is unknown for a while
			s.answers["/v1/node/"+nodeID+"/allocations"] = list(ids...)
			if _, err := c.Live(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		var got []string
		for _, match := range regexp.MustCompile(`job_networks = true.* allocation=(\S+) job=db`).FindAllStringSubmatch(log.String(), -1) {
			got = append(got, match[1])
		}
		if !slices.Equal(got, want) {
			t.Errorf("reads %t: logged %q, want %q\n%s", reads, got, want, log.String())
		}
	}
}

// TestLiveIsUnknown: without a usable answer the live set is unknown.
func TestLiveIsUnknown(t *testing.T) {
	gone := httptest.NewServer(nil)
	gone.Close()
	for name, test := range map[string]struct {
		answers map[string]any
		url     string
	}{
		"no answer":           {url: gone.URL},
		"a server, no client": {answers: map[string]any{"/v1/agent/self": map[string]any{"stats": map[string]any{}}}},
		"no such node": {answers: map[string]any{
			"/v1/agent/self": self(), "/v1/node/" + nodeID + "/allocations": []*api.Allocation{},
		}},
		"no permission": {answers: map[string]any{
			"/v1/agent/self": self(), "/v1/node/" + nodeID: api.Node{ID: nodeID},
			"/v1/node/" + nodeID + "/allocations": func(w http.ResponseWriter, _ *http.Request) {
				http.Error(w, "Permission denied", http.StatusForbidden)
			},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			if test.url == "" {
				test.url = serve(t, test.answers).URL
			}
			if live, err := newClient(t, test.url).Live(context.Background()); err == nil {
				t.Errorf("got %v", live)
			}
		})
	}
	c := newClient(t, serve(t, map[string]any{"/v1/agent/self": self()}).URL)
	if err := os.WriteFile(c.config.TokenFile, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Live(context.Background()); err == nil || !strings.Contains(err.Error(), "is empty") {
		t.Errorf("without a token: %v", err)
	}
}

func allocation(networks []*api.NetworkResource, meta map[string]string) *api.Allocation {
	name := "g"
	region := "eu"
	return &api.Allocation{ID: allocID, Namespace: "prod", JobID: "db", TaskGroup: name, Job: &api.Job{Region: &region, TaskGroups: []*api.TaskGroup{{Name: &name, Networks: networks, Meta: meta}}}}
}

func TestJobNetworks(t *testing.T) {
	block := func(mode string, args map[string]string) *api.NetworkResource {
		n := &api.NetworkResource{Mode: mode}
		if args != nil {
			n.CNI = &api.CNIConfig{Args: args}
		}
		return n
	}
	for name, test := range map[string]struct {
		networks []*api.NetworkResource
		meta     string
		want     []selection.Element
		word     string
	}{
		"nothing":            {networks: []*api.NetworkResource{block("cni/multi", nil)}},
		"no network at all":  {},
		"further blocks":     {networks: []*api.NetworkResource{block("cni/multi", nil), block("cni/storage", nil), block("cni/mgmt", nil)}, want: []selection.Element{{Name: "storage"}, {Name: "mgmt"}}},
		"no CNI mode":        {networks: []*api.NetworkResource{block("bridge", nil), block("host", nil), block("cni/a", nil)}, want: []selection.Element{{Name: "a"}}},
		"named by arguments": {networks: []*api.NetworkResource{block("cni/multi", nil), block("cni/a", map[string]string{"networks.a": "{}"})}},
		"meta":               {meta: "storage,mgmt@net5", want: []selection.Element{{Name: "storage"}, {Name: "mgmt", Interface: "net5"}}},
		"meta as JSON":       {meta: `[{"name": "a", "ips": ["10.0.0.1"]}]`, want: []selection.Element{{Name: "a", IPs: []string{"10.0.0.1"}}}},
		"both":               {networks: []*api.NetworkResource{block("cni/m", nil), block("cni/a", nil)}, meta: "b", want: []selection.Element{{Name: "a"}, {Name: "b"}}},
		"lost port":          {networks: []*api.NetworkResource{block("cni/m", nil), {Mode: "cni/a", DynamicPorts: []api.Port{{Label: "http", To: 80}}}}, word: "network[1].port"},
		"lost static port":   {networks: []*api.NetworkResource{block("cni/m", nil), block("cni/a", nil), {ReservedPorts: []api.Port{{Label: "http", Value: 80}}}}, word: "network[2].port"},
		"bad name":           {networks: []*api.NetworkResource{block("cni/m", nil), block("cni/../a", nil)}, word: "network[1].mode"},
		"bad meta":           {meta: "a,,b", word: "networks[1]"},
		"variable":           {meta: "net${NOMAD_ALLOC_INDEX}", word: "variable"},
	} {
		t.Run(name, func(t *testing.T) {
			j, err := jobOf(allocation(test.networks, map[string]string{metaKey: test.meta}))
			if test.word != "" {
				if errdefs.Of(err) != errdefs.Refused || !strings.Contains(err.Error(), test.word) {
					t.Errorf("got %v, want %q", err, test.word)
				}
				return
			}
			if diff := cmp.Diff(test.want, j.Networks); err != nil || diff != "" {
				t.Errorf("%v\n%s", err, diff)
			}
		})
	}
	if _, err := jobOf(&api.Allocation{TaskGroup: "x", Job: &api.Job{}}); err == nil {
		t.Error("a missing group selects networks")
	}
}

// TestJobMeta: a group has the meta of its job. What would be ignored is an error.
func TestJobMeta(t *testing.T) {
	for name, test := range map[string]struct {
		job, group, task map[string]string
		want             []selection.Element
		word             string
	}{
		"of the job":        {job: map[string]string{metaKey: "a"}, want: []selection.Element{{Name: "a"}}},
		"of both":           {job: map[string]string{metaKey: "a"}, group: map[string]string{metaKey: "b"}, want: []selection.Element{{Name: "b"}}},
		"of others":         {job: map[string]string{"owner": "x"}, group: map[string]string{"allocnetworks": "x"}, task: map[string]string{"rack": "x"}},
		"of a task":         {task: map[string]string{metaKey: "a"}, word: "meta allocnet.networks of task t"},
		"mistyped":          {group: map[string]string{"allocnet.network": "a"}, word: "meta allocnet.network: is unknown: want allocnet.networks"},
		"in capitals":       {group: map[string]string{"Allocnet.Networks": "a"}, word: "meta Allocnet.Networks: is unknown: want allocnet.networks"},
		"as in a block":     {group: map[string]string{"allocnet_networks": "a"}, word: "meta allocnet_networks: is unknown"},
		"mistyped in a job": {job: map[string]string{"allocnet.nets": "a"}, word: "meta allocnet.nets"},
	} {
		a := allocation(nil, test.group)
		a.Job.Meta, a.Job.TaskGroups[0].Tasks = test.job, []*api.Task{{Name: "t", Meta: test.task}}
		j, err := jobOf(a)
		if diff := cmp.Diff(test.want, j.Networks); (err != nil) != (test.word != "") || diff != "" || err != nil && !strings.Contains(err.Error(), test.word) {
			t.Errorf("%s: %v, want %q\n%s", name, err, test.word, diff)
		}
	}
}

func TestNetworksAreCached(t *testing.T) {
	var calls atomic.Int32
	answer := allocation([]*api.NetworkResource{{Mode: "cni/m"}, {Mode: "cni/storage"}}, map[string]string{ingressKey: "5432/tcp", egressKey: "dns"})
	s := serve(t, map[string]any{"/v1/allocation/" + allocID: func(w http.ResponseWriter, _ *http.Request) {
		if calls.Add(1) < 3 { // as when no leader is elected
			http.Error(w, "No cluster leader", http.StatusInternalServerError)
			return
		}
		_ = json.NewEncoder(w).Encode(answer)
	}})
	c := newClient(t, s.URL)
	want := selection.Job{
		Identity: policy.Identity{Namespace: "prod", Job: "db", Group: "g", Region: "eu"}, Networks: []selection.Element{{Name: "storage"}},
		Narrowing: selection.Narrowing{Ingress: "5432/tcp", Egress: "dns"},
	}
	for _, when := range []string{"after failures", "from the cache"} {
		got, err := c.Networks(context.Background(), allocID)
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%s: %v\n%s", when, err, diff)
		}
	}
	if calls.Load() != 3 {
		t.Errorf("%d calls, want 3", calls.Load())
	}
	s.Close()
	if got, err := c.Networks(context.Background(), allocID); err != nil || !cmp.Equal(want, got) {
		t.Errorf("with nomad gone: %+v, %v", got, err)
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(errors.New("the deadline"))
	for name, text := range map[string]string{"a file that a power cut truncated": "", "no networks": `{"identity": {}}`, "no list": `{"networks": "a"}`, "of another form": `[{"name": "a"}]`} {
		if err := os.WriteFile(c.cache.path(allocID), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := c.Networks(ctx, allocID); err == nil || !strings.Contains(err.Error(), "the deadline") {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
	for live, count := range map[bool]int{true: 1, false: 0} {
		if err := c.cache.store(allocID, want); err != nil {
			t.Fatal(err)
		}
		if err := c.Prune(map[string]bool{allocID: live}); err != nil {
			t.Error(err)
		}
		if left, _ := filepath.Glob(c.config.NetworksDir + "/*"); len(left) != count {
			t.Errorf("live %v: left %v", live, left)
		}
	}
	for range 2 {
		if err := c.Forget(allocID); err != nil {
			t.Error(err)
		}
	}
	if left, _ := filepath.Glob(c.config.NetworksDir + "/*"); left != nil {
		t.Errorf("left: %v", left)
	}
}

// TestWrongAnswers: what is not the allocation that was asked for is an error, and is not kept.
func TestWrongAnswers(t *testing.T) {
	other := allocation(nil, nil)
	other.ID = nodeID
	name := "g"
	for what, answer := range map[string]any{
		"nothing": nil, "no allocation": map[string]any{}, "another one": other,
		"no job":   &api.Allocation{ID: allocID, TaskGroup: name},
		"no group": &api.Allocation{ID: allocID, TaskGroup: name, Job: &api.Job{TaskGroups: []*api.TaskGroup{nil, {}}}},
	} {
		c := newClient(t, serve(t, map[string]any{"/v1/allocation/" + allocID: answer}).URL)
		j, err := c.Networks(t.Context(), allocID)
		if err == nil || !strings.Contains(err.Error(), allocID) {
			t.Errorf("%s: %+v, error %v, want one with the allocation", what, j, err)
		}
		if left, _ := filepath.Glob(c.config.NetworksDir + "/*"); left != nil {
			t.Errorf("%s: kept %v", what, left)
		}
		if a, is := answer.(*api.Allocation); is {
			(allocationStub{ID: a.ID, TaskGroup: a.TaskGroup, Job: a.Job}).selects() // must not panic
		}
	}
}

// TestBusyNomad: an agent that limits connections answers later.
func TestBusyNomad(t *testing.T) {
	var calls atomic.Int32
	s := serve(t, map[string]any{"/v1/allocation/" + allocID: func(w http.ResponseWriter, _ *http.Request) {
		if calls.Add(1) == 1 {
			http.Error(w, "Your IP is issuing too many concurrent connections, please rate limit your calls", http.StatusTooManyRequests)
			return
		}
		_ = json.NewEncoder(w).Encode(allocation(nil, nil))
	}})
	if _, err := newClient(t, s.URL).Networks(t.Context(), allocID); err != nil {
		t.Error(err)
	}
}

func TestNetworksOfOthers(t *testing.T) {
	c := newClient(t, serve(t, nil).URL)
	if got, err := c.Networks(context.Background(), "web-1"); err != nil || !cmp.Equal(got, selection.Job{}) {
		t.Errorf("not Nomad's: %+v, %v", got, err)
	}
	if got, err := c.Networks(context.Background(), allocID); errdefs.Of(err) != errdefs.Refused {
		t.Errorf("unknown to Nomad: %v, %v", got, err)
	}
	denied := serve(t, map[string]any{"/v1/allocation/" + allocID: func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "Permission denied", http.StatusForbidden)
	}})
	if _, err := newClient(t, denied.URL).Networks(context.Background(), allocID); err == nil || !strings.Contains(err.Error(), "Permission denied") {
		t.Errorf("denied: %v", err)
	}
	if err := c.Forget("../x"); err == nil {
		t.Error("a path was forgotten")
	}
}

func TestPublish(t *testing.T) {
	var applied api.NodeMetaApplyRequest
	s := serve(t, map[string]any{
		"/v1/agent/self": self(),
		"/v1/client/metadata": func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodPost {
				_ = json.NewDecoder(r.Body).Decode(&applied)
			}
			_ = json.NewEncoder(w).Encode(api.NodeMetaResponse{Meta: map[string]string{
				metaPrefix + "web": "true", metaPrefix + "gone": "true", "rack": "r1",
				poolPrefix + "same.free": "32", poolPrefix + "vlan.free": "0",
			}})
		},
	})
	c := newClient(t, s.URL)
	if err := c.Publish(context.Background(), []string{"web", "storage", "1.2"}, map[string]int{"vlan100": 61, "full": 0, "same": 40, "0": 5}); err != nil {
		t.Fatal(err)
	}
	yes, some, none := "true", "32", "0"
	want := map[string]*string{
		metaPrefix + "storage": &yes, metaPrefix + "gone": nil,
		poolPrefix + "vlan100.free": &some, poolPrefix + "full.free": &none, poolPrefix + "vlan.free": nil,
	}
	if diff := cmp.Diff(want, applied.Meta); diff != "" || applied.NodeID != nodeID {
		t.Errorf("node %s\n%s", applied.NodeID, diff)
	}
	applied = api.NodeMetaApplyRequest{}
	if err := c.Publish(context.Background(), []string{"web", "gone"}, map[string]int{"same": 127, "vlan": 0}); err != nil || applied.Meta != nil {
		t.Errorf("nothing changed: %v, %v", applied, err)
	}
}

// TestAtLeast: the value changes seldom, and is never more than there are addresses.
func TestAtLeast(t *testing.T) {
	for _, test := range []struct {
		n             int
		present, want string
	}{
		{0, "", "0"}, {1, "", "1"}, {3, "", "2"}, {64, "", "64"}, {62, "0", "32"}, {62, "32", "32"}, {127, "32", "32"}, {128, "32", "128"}, {31, "32", "16"}, {0, "32", "0"}, {5, "x", "4"}, {-1, "", "0"},
	} {
		if got := atLeast(test.n, test.present); got != test.want {
			t.Errorf("%d after %q: %s, want %s", test.n, test.present, got, test.want)
		}
	}
}

func TestAttached(t *testing.T) {
	for _, test := range []struct {
		network, allocation string
		want                bool
	}{{"nomad", allocID, true}, {"web", allocID, false}, {"nomad", "web-1", false}, {"nomad", allocID + "x", false}} {
		if got := Attached(test.network, test.allocation); got != test.want {
			t.Errorf("%s on %s: %t, want %t", test.allocation, test.network, got, test.want)
		}
	}
}

// TestCacheFollowsNoLink: a link is replaced, and its target is not written.
func TestCacheFollowsNoLink(t *testing.T) {
	c := networkCache{dir: t.TempDir()}
	target := filepath.Join(t.TempDir(), "target")
	if err := os.Symlink(target, c.path(allocID)); err != nil {
		t.Fatal(err)
	}
	if err := c.store(allocID, selection.Job{}); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(target); err == nil {
		t.Error("the target of the link was written")
	}
	if j, err := c.load(allocID); j == nil || len(j.Networks) != 0 || err != nil {
		t.Errorf("%+v, %v", j, err)
	}
}

// TestNewRefuses: an invalid address or CA is an error before any request.
func TestNewRefuses(t *testing.T) {
	for name, config := range map[string]Config{
		"address": {Address: "https://[::1"},
		"CA":      {CAFile: filepath.Join(t.TempDir(), "none")},
	} {
		if _, err := New(config); err == nil || !strings.Contains(err.Error(), "nomad address") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestPublishFails: each failed request is an error, and names the node.
func TestPublishFails(t *testing.T) {
	denied := func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "Permission denied", http.StatusForbidden) }
	for name, test := range map[string]struct {
		metadata func(http.ResponseWriter, *http.Request)
		word     string
	}{
		"read": {denied, "read metadata of node " + nodeID},
		"write": {func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodPost {
				denied(w, r)
				return
			}
			_ = json.NewEncoder(w).Encode(api.NodeMetaResponse{})
		}, "change metadata of node " + nodeID},
	} {
		s := serve(t, map[string]any{"/v1/agent/self": self(), "/v1/client/metadata": test.metadata})
		if err := newClient(t, s.URL).Publish(t.Context(), []string{"web"}, nil); err == nil || !strings.Contains(err.Error(), test.word) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
