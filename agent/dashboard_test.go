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
	for _, c := range []prometheus.Collector{registry, &hostCollector{}, poolCollector{}, clusterCollector{}, repairCollector{}, publishedCollector{}} {
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
		metrics[found[1]] = append(strings.Split(found[3], ","), "le")
		for _, label := range constant.FindAllStringSubmatch(found[2], -1) {
			metrics[found[1]] = append(metrics[found[1]], label[1])
		}
	}
	return metrics
}

// requireExported holds a query, and the template of a text about its series, to the
// metrics and their labels. It returns the metrics of the query.
func requireExported(t *testing.T, metrics map[string][]string, title, query, text string) []string {
	t.Helper()
	labels := []string{"job", "instance"} // Prometheus adds them
	var names []string
	for _, name := range regexp.MustCompile(`allocnet_\w+`).FindAllString(query, -1) {
		for _, part := range []string{"_bucket", "_sum", "_count"} {
			if _, ok := metrics[strings.TrimSuffix(name, part)]; ok {
				name = strings.TrimSuffix(name, part)
			}
		}
		if metrics[name] == nil {
			t.Errorf("%s: there is no metric %s", title, name)
		}
		names, labels = append(names, name), append(labels, metrics[name]...)
	}
	for _, used := range labelsIn(query, text) {
		if !slices.Contains(labels, used) {
			t.Errorf("%s: its metrics have no label %s", title, used)
		}
	}
	return names
}

// TestDashboard holds the dashboard to the metrics: it uses no others, with no
// other labels, and leaves none out.
func TestDashboard(t *testing.T) {
	var board struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr, LegendFormat string }
		}
	}
	if err := json.Unmarshal(distributed(t, "grafana/allocnet.json"), &board); err != nil {
		t.Fatal(err)
	}
	metrics, shown := described(t), map[string]bool{}
	for _, panel := range board.Panels {
		for _, target := range panel.Targets {
			for _, name := range requireExported(t, metrics, panel.Title, target.Expr, target.LegendFormat) {
				shown[name] = true
			}
		}
	}
	for name := range metrics {
		if !shown[name] {
			t.Errorf("%s is on no panel", name)
		}
	}
}

// TestAlerts holds the alert rules to the metrics. e2e/agent tests when they fire. An
// annotation has only labels that the aggregation keeps.
func TestAlerts(t *testing.T) {
	_, rules, _ := strings.Cut(string(distributed(t, "prometheus/allocnet.rules.yaml")), "rules:\n")
	metrics := described(t)
	alerts := strings.Split(rules, "- alert: ")[1:]
	if len(alerts) < 10 {
		t.Fatalf("only %d alerts in\n%s", len(alerts), rules)
	}
	for _, alert := range alerts {
		name, rest, _ := strings.Cut(alert, "\n")
		query, text, found := strings.Cut(rest, "annotations:\n")
		names := requireExported(t, metrics, name, query, text)
		if !found || len(names) == 0 && !strings.Contains(query, `up{job="allocnet"}`) {
			t.Errorf("%s: cannot read\n%s", name, rest)
		}
		kept := labelsIn(query, "")
		for _, label := range labelsIn("", text) {
			if strings.Contains(query, " by (") && !slices.Contains(kept, label) {
				t.Errorf("%s: the aggregation drops the label %s", name, label)
			}
		}
	}
}

// distributed returns a file of the folder dist.
func distributed(t *testing.T, name string) []byte {
	t.Helper()
	data, err := os.ReadFile("../dist/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// labelsIn returns the labels in a query, and in the template of a legend or an
// annotation.
func labelsIn(query, text string) []string {
	var labels []string
	for _, group := range regexp.MustCompile(`by \(([^)]*)\)`).FindAllStringSubmatch(query, -1) {
		labels = append(labels, strings.Split(group[1], ", ")...)
	}
	for _, match := range regexp.MustCompile(`[{,](\w+)!?=~?"`).FindAllStringSubmatch(query, -1) {
		labels = append(labels, match[1])
	}
	for _, match := range regexp.MustCompile(`\{\{(?: \$labels\.)?(\w+) ?\}\}`).FindAllStringSubmatch(text, -1) {
		labels = append(labels, match[1])
	}
	return labels
}
