// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package agent

import (
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

// described returns every metric with its labels.
func described(t *testing.T) map[string][]string {
	t.Helper()
	registry := prometheus.NewRegistry()
	NewMetrics(registry)
	descs := make(chan *prometheus.Desc, 64)
	for _, c := range []prometheus.Collector{registry, &hostCollector{}} {
		c.Describe(descs)
	}
	close(descs)
	form := regexp.MustCompile(`fqName: "([^"]+)".*constLabels: \{([^}]*)\}, variableLabels: \{([^}]*)\}`)
	constant := regexp.MustCompile(`(\w+)="`)
	metrics := map[string][]string{}
	for desc := range descs {
		found := form.FindStringSubmatch(desc.String())
		if found == nil {
			t.Fatalf("cannot read %s", desc)
		}
		metrics[found[1]] = append(strings.Split(found[3], ","), "instance", "le")
		for _, label := range constant.FindAllStringSubmatch(found[2], -1) {
			metrics[found[1]] = append(metrics[found[1]], label[1])
		}
	}
	return metrics
}

// TestDashboard holds the dashboard to the metrics: it uses no others, with no
// other labels, and leaves none out.
func TestDashboard(t *testing.T) {
	data, err := os.ReadFile("../dist/grafana/allocnet.json")
	if err != nil {
		t.Fatal(err)
	}
	var board struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr, LegendFormat string }
		}
	}
	if err := json.Unmarshal(data, &board); err != nil {
		t.Fatal(err)
	}
	metrics, shown := described(t), map[string]bool{}
	for _, panel := range board.Panels {
		for _, target := range panel.Targets {
			var labels []string
			for _, name := range regexp.MustCompile(`allocnet_\w+`).FindAllString(target.Expr, -1) {
				for _, part := range []string{"_bucket", "_sum", "_count"} {
					if _, ok := metrics[strings.TrimSuffix(name, part)]; ok {
						name = strings.TrimSuffix(name, part)
					}
				}
				if metrics[name] == nil {
					t.Errorf("%s: there is no metric %s", panel.Title, name)
				}
				shown[name], labels = true, append(labels, metrics[name]...)
			}
			for _, used := range labelsIn(target.Expr, target.LegendFormat) {
				if !slices.Contains(labels, used) {
					t.Errorf("%s: its metrics have no label %s", panel.Title, used)
				}
			}
		}
	}
	for name := range metrics {
		if !shown[name] {
			t.Errorf("%s is on no panel", name)
		}
	}
}

func labelsIn(expr, legend string) []string {
	var labels []string
	for _, group := range regexp.MustCompile(`by \(([^)]*)\)`).FindAllStringSubmatch(expr, -1) {
		labels = append(labels, strings.Split(group[1], ", ")...)
	}
	for _, match := range regexp.MustCompile(`[{,](\w+)=~?"`).FindAllStringSubmatch(expr, -1) {
		labels = append(labels, match[1])
	}
	for _, match := range regexp.MustCompile(`\{\{(\w+)\}\}`).FindAllStringSubmatch(legend, -1) {
		labels = append(labels, match[1])
	}
	return labels
}
