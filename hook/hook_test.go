// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package hook

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/containernetworking/cni/libcni"
	types100 "github.com/containernetworking/cni/pkg/types/100"

	"github.com/allocnet/allocnet/cniconf"
	"github.com/allocnet/allocnet/hook/internal/onrecord"
	"github.com/allocnet/allocnet/policy"
	"github.com/allocnet/allocnet/selection"
	"github.com/allocnet/allocnet/state"
)

func TestNew(t *testing.T) {
	for name, want := range map[string]string{CNI: "*hook.Engine", NoOp: "hook.noOp"} {
		host := &fakeHost{}
		h, err := New(name, Config{StateDir: t.TempDir(), Host: host})
		if (host.filtered > 0) != (name == NoOp) {
			t.Errorf("%s: bridged traffic is filtered: %t", name, host.filtered > 0)
		}
		if err != nil || fmt.Sprintf("%T", h) != want {
			t.Errorf("%s: %T, %v", name, h, err)
		}
	}
	if _, err := New("x", Config{}); err == nil || !strings.Contains(err.Error(), `"x"`) {
		t.Errorf("unknown: %v", err)
	}
}

func TestNoOp(t *testing.T) {
	ctx, h := context.Background(), noOp{}
	if a, err := h.Setup(ctx, Request{ID: "a", Netns: "/proc/1/ns/net"}); err != nil || len(a.Attachments) != 0 {
		t.Errorf("Setup: %+v, %v", a, err)
	}
	var refused *RequestError
	if _, err := h.Setup(ctx, Request{ID: "a", Primary: &selection.Element{Name: "web"}}); !errors.As(err, &refused) || !strings.Contains(err.Error(), `use the hook "cni"`) {
		t.Errorf("Setup with a network: %v, want *RequestError", err)
	}
	if _, err := h.Status(ctx, "a"); !errors.Is(err, state.ErrNotFound) {
		t.Errorf("Status: %v, want ErrNotFound", err)
	}
	if err := h.Teardown(ctx, "a"); err != nil {
		t.Errorf("Teardown: %v", err)
	}
}

func TestDelayAndSleep(t *testing.T) {
	for range 1000 {
		if d := delay(); d < time.Second || d >= 2*time.Second {
			t.Fatalf("delay %s, want 1 s to 2 s", d)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		if err := sleep(t.Context(), time.Hour); err != nil || time.Since(begun) != time.Hour {
			t.Errorf("slept %s, %v", time.Since(begun), err)
		}
		gaveUp := errors.New("gave up")
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Minute, gaveUp)
		defer cancel()
		begun = time.Now()
		if err := sleep(ctx, time.Hour); !errors.Is(err, gaveUp) || time.Since(begun) != time.Minute {
			t.Errorf("slept %s, %v", time.Since(begun), err)
		}
	})
}

func TestInOrder(t *testing.T) {
	after := [][]int{nil, {0}, {1}, nil, {0, 3}}
	var mu sync.Mutex
	var order []int
	inOrder(t.Context(), len(after), func(i int) []int { return after[i] }, func(i int) {
		mu.Lock()
		defer mu.Unlock()
		order = append(order, i)
	})
	for i, before := range after {
		for _, j := range before {
			if slices.Index(order, j) > slices.Index(order, i) {
				t.Errorf("%d came before %d: %v", i, j, order)
			}
		}
	}
	synctest.Test(t, func(t *testing.T) { // all at once: ten waits take as long as one
		begun := time.Now()
		inOrder(t.Context(), 10, func(int) []int { return nil }, func(int) { time.Sleep(time.Second) })
		if took := time.Since(begun); took != time.Second {
			t.Errorf("took %s", took)
		}
	})
}

func TestSetupOrder(t *testing.T) {
	const (
		way   = `{"type": "bridge", "ipam": {"type": "host-local", "routes": [{"dst": "0.0.0.0/0"}]}}`
		way6  = `{"type": "bridge", "ipam": {"type": "static", "routes": [{"dst": "::/0"}]}}`
		odd   = `{"type": "bridge", "ipam": {"type": "static", "routes": [{"dst": "10.1.2.3/0"}]}}`
		gate  = `{"type": "bridge", "isDefaultGateway": true}`
		plain = `{"type": "bridge", "ipam": {"type": "host-local", "routes": [{"dst": "10.0.0.0/8"}]}}`
		dhcp  = `{"type": "macvlan", "ipam": {"type": "dhcp"}}`
		alien = `{"type": "cilium-cni"}`
		outer = `{"type": "macvlan", "master": "cni0", "ipam": {}}`
		inner = `{"type": "vlan", "master": "net1", "linkInContainer": true, "ipam": {}}`
	)
	for name, test := range map[string]struct {
		plugins []string
		want    string
	}{
		"no default route":         {[]string{plain, plain, plain}, "[] [] []"},
		"default routes in a row":  {[]string{way, plain, way6, gate}, "[] [] [eth0] [net2]"},
		"default routes with bits": {[]string{odd, plain, odd}, "[] [] [eth0]"},
		"unknown plugins, too":     {[]string{alien, dhcp, plain}, "[] [eth0] []"},
		"on an interface inside":   {[]string{plain, plain, inner}, "[] [] [net1]"},
		"only the primary's route": {[]string{way, plain}, "[] []"},
		"a master that is absent":  {[]string{plain, inner}, "[] []"},
		"on the bridge of another": {[]string{outer, plain, outer}, "[] [] [net1]"},
	} {
		t.Run(name, func(t *testing.T) {
			p := &plan{}
			for i, plugin := range test.plugins {
				iface := fmt.Sprintf("net%d", i)
				if i == 0 {
					iface = "eth0"
				}
				p.added = append(p.added, planned{attachment: &state.Attachment{Interface: iface}, network: &cniconf.Network{
					List: &libcni.NetworkConfigList{Plugins: []*libcni.PluginConfig{{Bytes: []byte(plugin)}}},
				}})
			}
			p.order()
			var got []string
			for _, a := range p.attachments() {
				got = append(got, fmt.Sprint(a.DependsOn))
			}
			if strings.Join(got, " ") != test.want {
				t.Errorf("after: %v, want %s", got, test.want)
			}
		})
	}
}

func TestArgs(t *testing.T) {
	r := Request{ID: "a", Primary: &selection.Element{Name: "web"}, Args: map[string]string{"B": "2", "A": "1", "IgnoreUnknown": "false"}}
	if got := fmt.Sprint(r.cniArgs()); got != "[[IgnoreUnknown true] [A 1] [B 2]]" {
		t.Errorf("got %s", got)
	}
	for key, value := range map[string]string{"A": "1;B=2", "A=B": "1", "": "1", "C": "x=y", "D": "a\nb", "E;": ""} {
		r.Args = map[string]string{key: value}
		var refused *RequestError
		if err := r.validate(); !errors.As(err, &refused) {
			t.Errorf("%q=%q: %v, want *RequestError", key, value, err)
		}
	}
}

// TestIdentityArgs: what the orchestrator says of an allocation replaces what others say.
func TestIdentityArgs(t *testing.T) {
	ofNomad := policy.Identity{Namespace: "prod", Job: "db", Group: "main", Region: "eu"}
	const nomad = "[NOMAD_ALLOC_ID a1] [NOMAD_GROUP_NAME main] [NOMAD_JOB_ID db] [NOMAD_NAMESPACE prod]"
	for name, test := range map[string]struct {
		edit func(*policy.Identity)
		args map[string]string
		want string
	}{
		"an identity":      {want: nomad + " [NOMAD_REGION eu]"},
		"forged":           {args: map[string]string{"NOMAD_JOB_ID": "other", "NOMAD_NAMESPACE": "other", "NOMAD_ALLOC_ID": "a2", "NOMAD_ALLOC_INDEX": "2"}, want: "[NOMAD_ALLOC_ID a1] [NOMAD_ALLOC_INDEX 2] [NOMAD_GROUP_NAME main] [NOMAD_JOB_ID db] [NOMAD_NAMESPACE prod] [NOMAD_REGION eu]"},
		"without a region": {edit: func(i *policy.Identity) { i.Region = "" }, args: map[string]string{"NOMAD_REGION": "other"}, want: nomad},
		"without a group":  {edit: func(i *policy.Identity) { i.Group = "" }, args: map[string]string{"A": "1"}, want: "[A 1]"},
		"a job as x;A=1":   {edit: func(i *policy.Identity) { i.Job = "x;NOMAD_JOB_ID=other" }, args: map[string]string{"NOMAD_JOB_ID": "other", "A": "1"}, want: "[A 1]"},
	} {
		r := Request{ID: "a1", Identity: ofNomad, Args: test.args}
		if test.edit != nil {
			test.edit(&r.Identity)
		}
		if got, want := fmt.Sprint(r.cniArgs()), "[[IgnoreUnknown true] "+test.want+"]"; got != want {
			t.Errorf("%s: got %s, want %s", name, got, want)
		}
	}
}

func TestResultAddresses(t *testing.T) {
	result, err := types100.NewResult([]byte(`{"cniVersion": "1.0.0",
		"interfaces": [{"name": "veth1"}, {"name": "net9", "sandbox": "/x"}, {"name": "eth0", "sandbox": "/x"}],
		"ips": [{"address": "10.0.0.1/24"}, {"address": "10.9.0.1/24", "interface": 1}, {"address": "10.1.0.1/24", "interface": 0},
			{"address": "fd00::1/64", "interface": 2}, {"address": "10.2.0.1/24", "interface": 2}, {"address": "10.3.0.1/24", "interface": 7}]}`))
	if err != nil {
		t.Fatal(err)
	}
	got := fmt.Sprint(onrecord.Addresses(result.(*types100.Result)))
	const want = "[fd00::1/64 10.2.0.1/24 10.9.0.1/24 10.0.0.1/24 10.3.0.1/24]"
	if got != want {
		t.Errorf("got %s, want %s: in the sandbox by name, then of no interface, none of the host's", got, want)
	}
}

func TestErrorNamesAll(t *testing.T) {
	cause := errors.New("no such VLAN")
	err := &Error{Op: "attach", Allocation: "a1", Network: "storage", Interface: "net1", Attempts: 3, Err: cause}
	if got := err.Error(); got != `attach network "storage" as net1 of allocation a1 (3 attempts): no such VLAN` || !errors.Is(err, cause) {
		t.Errorf("got %s", got)
	}
}
