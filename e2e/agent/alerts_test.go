// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package agent

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/allocnet/allocnet/internal/sandbox"
)

// TestAlerts checks the alert rules with promtool, and runs their unit tests, in which
// each alert fires.
func TestAlerts(t *testing.T) {
	rules, tests := filepath.Join(sandbox.Root(), "dist", "prometheus", "allocnet.rules.yaml"), "testdata/alerts.test.yaml"
	promtool(t, "check", "rules", "--lint=all", "--lint-fatal", rules)
	promtool(t, "test", "rules", tests)
	tested := read(t, tests)
	for _, alert := range regexp.MustCompile(`- alert: (\w+)`).FindAllStringSubmatch(read(t, rules), -1) {
		if !strings.Contains(tested, `ALERTS{alertname="`+alert[1]+`",alertstate="firing"`) {
			t.Errorf("%s fires in no test", alert[1])
		}
	}
}

// TestPrometheusConfig checks the configuration of Prometheus in the documentation.
func TestPrometheusConfig(t *testing.T) {
	_, example, found := strings.Cut(read(t, filepath.Join(sandbox.Root(), "docs", "agent.md")), "```yaml\n")
	example, _, closed := strings.Cut(example, "```\n")
	if !found || !closed || !strings.Contains(example, "job_name: allocnet\n") {
		t.Fatalf("no scrape job \"allocnet\", which the alert rules name, in\n%s", example)
	}
	file := filepath.Join(t.TempDir(), "prometheus.yaml")
	sandbox.WriteFile(t, file, example)
	promtool(t, "check", "config", "--syntax-only", file)
}

func promtool(t *testing.T, args ...string) {
	t.Helper()
	program := filepath.Join(sandbox.Root(), "build", "promtool", "promtool")
	if _, err := os.Stat(program); err != nil {
		t.Fatalf("%v: run: make build/promtool/promtool", err)
	}
	if out, err := exec.Command(program, args...).CombinedOutput(); err != nil {
		t.Errorf("promtool %v: %v\n%s", args, err, out)
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
