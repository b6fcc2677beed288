// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package attach

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/allocnet/allocnet/hook/internal/config"
	"github.com/allocnet/allocnet/hook/internal/operation"
	"github.com/allocnet/allocnet/hook/internal/plan"
	"github.com/allocnet/allocnet/selection"
	"github.com/allocnet/allocnet/state"
)

// planner returns what an engine has with the network web, whose plugin is never run.
func planner(t *testing.T) *operation.Env {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"web.conf": `{"cniVersion": "1.0.0", "name": "web", "type": "plugin"}`, "plugin": "",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	e, err := operation.NewEnv(config.Config{ConfDirs: []string{dir}, PluginDirs: []string{dir}, StateDir: dir + "/state", PolicyFile: dir + "/none"}, state.Open)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// TestContainerIDs: the primary has the allocation's, all others one of their
// own.
func TestContainerIDs(t *testing.T) {
	e := planner(t)
	web := selection.Element{Name: "web"}
	for name, test := range map[string]struct {
		request plan.Request
		want    []string
	}{
		"with a primary": {plan.Request{ID: "w1", Primary: &web, Networks: []selection.Element{web, web}}, []string{"w1", "w1.allocnet.net1", "w1.allocnet.net2"}},
		"without":        {plan.Request{ID: "w1", Networks: []selection.Element{web, {Name: "web", Interface: "d.0"}}}, []string{"w1.allocnet.net1", "w1.allocnet.d_2e0"}},
	} {
		p, err := newPlan(e, e.Config.Host, test.request, "d")
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		o := e.On(state.Record{})
		for _, a := range p.Attachments() {
			got = append(got, o.RuntimeConf(a, nil, "").ContainerID)
		}
		if !slices.Equal(got, test.want) {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
	var refused *plan.RequestError
	_, err := newPlan(e, e.Config.Host, plan.Request{ID: strings.Repeat("x", 120), Networks: []selection.Element{web}}, "d")
	if !errors.As(err, &refused) || !strings.Contains(refused.Reason, "net1") {
		t.Errorf("an ID that is too long for its attachment: %v", err)
	}
}
