// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package inprocess

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/containernetworking/cni/pkg/types"
	current "github.com/containernetworking/cni/pkg/types/100"

	"github.com/allocnet/allocnet/internal/inprocess/plugin"
	"github.com/allocnet/allocnet/internal/inprocess/remedy"
	"github.com/allocnet/allocnet/internal/roottest"
)

var environ = []string{"CNI_COMMAND=ADD", "CNI_CONTAINERID=c", "CNI_NETNS=/no/such/namespace", "CNI_IFNAME=eth0"}

// TestPanic: a plugin that panics fails, as its process would.
func TestPanic(t *testing.T) {
	plugins["broken"] = plugin.Type{Add: func(*plugin.Call) (*current.Result, error) { panic("no such index") }}
	defer delete(plugins, "broken")
	_, err := (&Chain{}).ExecPlugin(t.Context(), "broken", []byte(`{"cniVersion": "1.1.0", "name": "n"}`), environ)
	var own *types.Error
	if !errors.As(err, &own) || own.Code != types.ErrInternal || own.Msg != "plugin broken: panic: no such index" {
		t.Errorf("got %v", err)
	}
}

// TestRootPanicInNamespace: so does one that panics in the namespace, where another goroutine
// runs.
func TestRootPanicInNamespace(t *testing.T) {
	roottest.Require(t)
	inside := func(c *plugin.Call) error {
		return c.InNamespace(func() error { panic("no such index") })
	}
	plugins["broken"] = plugin.Type{Repair: inside}
	defer delete(plugins, "broken")
	own := []string{"CNI_COMMAND=CHECK", "CNI_CONTAINERID=c", "CNI_NETNS=/proc/self/ns/net", "CNI_IFNAME=eth0"}
	_, err := (&Chain{Repair: &remedy.Repair{}}).ExecPlugin(t.Context(), "broken", []byte(`{"cniVersion": "1.1.0", "name": "n"}`), own)
	var coded *types.Error
	if !errors.As(err, &coded) || coded.Code != types.ErrInternal || coded.Msg != "plugin broken: panic: no such index" || !strings.Contains(coded.Details, "TestRootPanicInNamespace") {
		t.Errorf("got %v", err)
	}
}

// TestCalls: what is wrong with a call is refused with the codes of the reference plugins,
// before anything is made.
func TestCalls(t *testing.T) {
	const config = `{"cniVersion": "1.1.0", "name": "n", "type": "bridge"}`
	for name, test := range map[string]struct {
		Type, config string
		environ      []string
		code         uint
	}{
		"no container ID":  {"bridge", config, environ[:1], types.ErrInvalidEnvironmentVariables},
		"a wrong ID":       {"bridge", config, append(environ[:3:3], "CNI_CONTAINERID=../c", environ[3]), types.ErrInvalidEnvironmentVariables},
		"a wrong name":     {"bridge", config, append(environ[:3:3], "CNI_IFNAME=a/b"), types.ErrInvalidEnvironmentVariables},
		"no JSON":          {"bridge", "{", environ, types.ErrDecodingFailure},
		"no network":       {"bridge", `{"cniVersion": "1.1.0"}`, environ, types.ErrInvalidNetworkConfig},
		"an unknown CNI":   {"bridge", `{"cniVersion": "9.0.0", "name": "n"}`, environ, types.ErrIncompatibleCNIVersion},
		"too old a CNI":    {"bandwidth", `{"cniVersion": "0.2.0", "name": "n"}`, environ, types.ErrIncompatibleCNIVersion},
		"no CNI version":   {"bandwidth", `{"name": "n"}`, environ, types.ErrIncompatibleCNIVersion},
		"an unknown type":  {"calico", config, environ, types.ErrInvalidEnvironmentVariables},
		"hairpin, promisc": {"bridge", strings.Replace(config, "{", `{"hairpinMode": true, "promiscMode": true, `, 1), environ, types.ErrInternal},
	} {
		_, err := (&Chain{}).ExecPlugin(t.Context(), "/opt/cni/bin/"+test.Type, []byte(test.config), test.environ)
		var own *types.Error
		if !errors.As(err, &own) || own.Code != test.code {
			t.Errorf("%s: %v, want code %d", name, err, test.code)
		}
	}
}

// TestEndedContext: nothing is executed for an operation that is over.
func TestEndedContext(t *testing.T) {
	gaveUp := errors.New("the caller gave up")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(gaveUp)
	if _, err := (&Chain{}).ExecPlugin(ctx, "bridge", nil, environ); !errors.Is(err, gaveUp) {
		t.Errorf("got %v", err)
	}
}

// TestLeasesOutlastChains: DEL of each type releases its leases only when it is committed, which
// may be long after: the links have the addresses until then.
func TestLeasesOutlastChains(t *testing.T) {
	for _, name := range []string{"bridge", "ptp", "macvlan"} {
		dir := t.TempDir()
		lease := filepath.Join(dir, "n", "192.0.2.5")
		config := fmt.Sprintf(`{"cniVersion": "1.1.0", "name": "n", "type": %q,
			"ipam": {"type": "host-local", "subnet": "192.0.2.0/24", "dataDir": %q}}`, name, dir)
		if err := errors.Join(os.Mkdir(filepath.Dir(lease), 0o755), os.WriteFile(lease, []byte("c\r\neth0"), 0o600)); err != nil {
			t.Fatal(err)
		}
		chain := &Chain{}
		if _, err := chain.ExecPlugin(t.Context(), name, []byte(config), append([]string{"CNI_COMMAND=DEL"}, environ[1:]...)); err != nil {
			t.Fatal(err)
		}
		if !exists(lease) {
			t.Errorf("%s: the lease is released before the link is removed", name)
		}
		if err := plugin.Commit(t.Context(), nil, []*plugin.Changes{chain.Changes()})[0]; err != nil || exists(lease) {
			t.Errorf("%s: the lease is left after the commit: %v", name, err)
		}
	}
}
