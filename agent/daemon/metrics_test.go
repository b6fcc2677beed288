// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package daemon

import (
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/crypto/bcrypt"

	"github.com/allocnet/allocnet/agent"
	"github.com/allocnet/allocnet/agent/config"
	"github.com/allocnet/allocnet/internal/errdefs"
	"github.com/allocnet/allocnet/internal/version"
)

// serveMetrics starts the metrics listener, and returns its URL.
func serveMetrics(t *testing.T, webConfig string) string {
	t.Helper()
	d := &Daemon{
		config: config.Config{Metrics: &config.Metrics{Listen: "127.0.0.1:0", WebConfig: webConfig}},
		log:    hclog.NewNullLogger(), metrics: agent.NewMetrics(prometheus.NewRegistry()),
	}
	s, err := d.listenMetrics()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); s.run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	return "http://" + s.listener.Addr().String()
}

func request(t *testing.T, method, url, user, password string) (status int, body string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	if user != "" {
		r.SetBasicAuth(user, password)
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(text)
}

// TestMetricsListener: it has the metrics, and no part of the API.
func TestMetricsListener(t *testing.T) {
	url := serveMetrics(t, "")
	status, body := request(t, http.MethodGet, url+"/metrics", "", "")
	if want := `allocnet_build_info{commit=`; status != http.StatusOK || !strings.Contains(body, want) || !strings.Contains(body, `version="`+version.Version+`"} 1`) {
		t.Errorf("%d, want %q:\n%s", status, want, body)
	}
	for path, want := range map[string]int{"/": 404, "/v1/allocations": 404, "/debug/pprof/": 404} {
		if status, _ := request(t, http.MethodGet, url+path, "", ""); status != want {
			t.Errorf("%s: %d, want %d", path, status, want)
		}
	}
	if status, _ := request(t, http.MethodPost, url+"/metrics", "", ""); status != http.StatusMethodNotAllowed {
		t.Errorf("POST: %d", status)
	}
}

// TestMetricsUsers: the file of the exporter toolkit protects the metrics.
func TestMetricsUsers(t *testing.T) {
	hash, err := bcrypt.GenerateFromPassword([]byte("secret"), bcrypt.MinCost)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "web.yml")
	if err := os.WriteFile(file, []byte("basic_auth_users:\n  prometheus: "+string(hash)+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	url := serveMetrics(t, file) + "/metrics"
	for password, want := range map[string]int{"": 401, "wrong": 401, "secret": 200} {
		user := "prometheus"
		if password == "" {
			user = ""
		}
		if status, _ := request(t, http.MethodGet, url, user, password); status != want {
			t.Errorf("password %q: %d, want %d", password, status, want)
		}
	}
}

// TestMetricsFaults: the agent does not start without the listener that it is to have.
func TestMetricsFaults(t *testing.T) {
	dir := t.TempDir()
	bad := filepath.Join(dir, "web.yml")
	if err := os.WriteFile(bad, []byte("basic_auth_user: {}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	taken := strings.TrimPrefix(serveMetrics(t, ""), "http://")
	for name, test := range map[string]struct {
		metrics config.Metrics
		want    string
		kind    errdefs.Kind
	}{
		"address in use":     {config.Metrics{Listen: taken}, `metrics: listen "` + taken + `": `, errdefs.Failed},
		"mistake in file":    {config.Metrics{Listen: "127.0.0.1:0", WebConfig: bad}, "metrics: web_config " + bad + ": ", errdefs.Refused},
		"file missing":       {config.Metrics{Listen: "127.0.0.1:0", WebConfig: dir + "/no.yml"}, dir + "/no.yml", errdefs.Refused},
		"no address on host": {config.Metrics{Listen: "192.0.2.1:0"}, `listen "192.0.2.1:0"`, errdefs.Failed},
	} {
		d := &Daemon{config: config.Config{Metrics: &test.metrics}, log: hclog.NewNullLogger(), metrics: agent.NewMetrics(prometheus.NewRegistry())}
		if _, err := d.listenMetrics(); err == nil || !strings.Contains(err.Error(), test.want) || errdefs.Of(err) != test.kind {
			t.Errorf("%s: %v, want %s %q", name, err, test.kind, test.want)
		}
	}
	if err := CheckPaths(config.Config{Metrics: &config.Metrics{WebConfig: bad}}); err == nil || !strings.Contains(err.Error(), "basic_auth_user") {
		t.Errorf("--check-config: %v", err)
	}
}
