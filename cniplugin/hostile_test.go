// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package cniplugin

import (
	"errors"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/containernetworking/cni/pkg/skel"
	"github.com/containernetworking/cni/pkg/types"

	"github.com/allocnet/allocnet/hook"
	"github.com/allocnet/allocnet/policy"
)

var plain = regexp.MustCompile(`^[a-zA-Z0-9_][\w.-]*$`)

// requireSafe requires that a request has nothing that a job must not decide.
func requireSafe(t *testing.T, r *request, s hook.Request) {
	t.Helper()
	for _, e := range slices.Concat(s.Networks, s.Defaults) {
		if !plain.MatchString(e.Name) || e.Interface != "" && !plain.MatchString(e.Interface) {
			t.Errorf("%q selects %+v", r.args.Args, e)
		}
	}
	for key, value := range s.Args {
		if strings.ContainsAny(key+value, "=;") {
			t.Errorf("%q gives plugins the pair %q, %q", r.args.Args, key, value)
		}
		if !slices.Contains(nomadArgs, key) && !slices.Contains(r.conf.PassArgs, key) {
			t.Errorf("%q gives plugins %s", r.args.Args, key)
		}
	}
	proven := strings.Contains(";"+r.args.Args+";", ";NOMAD_ALLOC_ID="+r.args.ContainerID+";") && r.conf.Identity != "unknown"
	if s.Identity != (policy.Identity{}) && !proven && r.conf.Args.CNI[argIdentity] == nil {
		t.Errorf("%q is taken for %+v", r.args.Args, s.Identity)
	}
	if s.ID != r.args.ContainerID || s.Owner != "cni/"+r.conf.Name+"/"+r.args.IfName {
		t.Errorf("%q makes it %q of %q", r.args.Args, s.ID, s.Owner)
	}
}

// callOf returns a call and its request.
func callOf(args string, stdin []byte) (*request, hook.Request, error) {
	c, err := decodeConf(stdin)
	if err == nil {
		err = c.check(stdin)
	}
	r := &request{conf: c, args: &skel.CmdArgs{ContainerID: "a1", IfName: "eth0", Netns: "/run/netns/a1", Args: args, StdinData: stdin}}
	if err != nil {
		return r, hook.Request{}, err
	}
	s, err := r.setup()
	return r, s, err
}

const stdin = `{"cniVersion": "1.0.0", "name": "multi", "type": "allocnet-cni", "primary": "web"}`

// FuzzArgs parses CNI_ARGS, which the author of a job can set.
func FuzzArgs(f *testing.F) {
	f.Add("networks=a,b@c;NOMAD_ALLOC_ID=x;networks.d={}")
	f.Add("NOMAD_ALLOC_ID=a1;NOMAD_NAMESPACE=prod;NOMAD_JOB_ID=x;networks=secret;IgnoreUnknown=true")
	f.Add(`networks=[{"name":"a","cni-args":{"ips":["10.0.0.1"]},"portMappings":[{"hostPort":80}]}]`)
	f.Fuzz(func(t *testing.T, args string) {
		r, s, err := callOf(args, []byte(stdin))
		if err == nil {
			requireSafe(t, r, s)
		}
	})
}

// FuzzStdin parses the plugin configuration with the arguments of a runtime.
func FuzzStdin(f *testing.F) {
	f.Add([]byte(stdin))
	f.Add([]byte(`{"cniVersion": "1.0.0", "name": "m", "type": "allocnet-cni", "delegates": [{"cniVersion": "1.0.0", "name": "w", "type": "bridge"}], "networks": "a", "passArgs": ["x"], "identity": "unknown",
		"runtimeConfig": {"portMappings": [{"hostPort": 80}], "ips": ["10.0.0.1"], "networks": [{"name": "b"}]}, "args": {"cni": {"networks.c": {}, "identity": {"namespace": "prod"}}}, "prevResult": {"cniVersion": "1.0.0"}}`))
	f.Add([]byte(`{"cniVersion": "1.0.0", "name": "m", "primary": {"name": "../w"}, "agent": {"mode": "x"}, "timeout": "-1s"}`))
	f.Fuzz(func(t *testing.T, stdin []byte) {
		r, s, err := callOf("networks.job=;NOMAD_ALLOC_ID=a1;NOMAD_NAMESPACE=prod;NOMAD_JOB_ID=j;x=y;IgnoreUnknown=true", stdin)
		if err != nil {
			return
		}
		requireSafe(t, r, s)
		if r.conf.timeout <= 0 {
			t.Errorf("%q has the timeout %s", stdin, r.conf.timeout)
		}
		if s.Primary != nil && (!plain.MatchString(s.Primary.Name) || s.Primary.Interface != "eth0" || s.Primary.Name == r.conf.Name) {
			t.Errorf("%q has the primary %+v", stdin, s.Primary)
		}
		for _, n := range r.conf.delegates {
			if !plain.MatchString(n.Name) || len(n.List.Plugins) == 0 {
				t.Errorf("%q has the delegate %+v", stdin, n)
			}
		}
	})
}

// TestInjectedPairs: Nomad does not escape names in CNI_ARGS. Pairs in them have no
// effect.
func TestInjectedPairs(t *testing.T) {
	for name, value := range map[string]string{
		"another namespace":  "db;NOMAD_NAMESPACE=prod",
		"another allocation": "db;NOMAD_ALLOC_ID=a2",
		"an address":         "db;IP=10.0.0.9",
		"a MAC":              "db;MAC=02:00:00:00:00:01",
		"a pair":             "db=x",
		"half a pair":        "db;x",
		"a path":             "db;networks=../secret",
		"JSON":               `db;networks=[{"name":"a","interface":"../x"}]`,
		"an interface":       "db;networks=a@x=y",
	} {
		for _, key := range []string{"NOMAD_JOB_ID", "NOMAD_GROUP_NAME", "NOMAD_REGION"} {
			_, s, err := callOf("NOMAD_ALLOC_ID=a1;"+key+"="+value+";NOMAD_NAMESPACE=dev", []byte(stdin))
			var own *types.Error
			if !errors.As(err, &own) || own.Code != types.ErrInvalidEnvironmentVariables && own.Code != types.ErrInvalidNetworkConfig {
				t.Errorf("%s in %s: got %v, want a CNI error about the arguments or the networks", name, key, err)
			}
			if s.Identity.Namespace == "prod" {
				t.Errorf("%s in %s: taken for %+v", name, key, s.Identity)
			}
		}
	}
	_, s, err := callOf("NOMAD_ALLOC_ID=a1;NOMAD_NAMESPACE=../../prod;NOMAD_JOB_ID=a/b", []byte(stdin))
	if err != nil || s.Identity.Namespace != "../../prod" {
		t.Errorf("names in which slashes mean nothing: %+v, %v", s.Identity, err)
	}
}
