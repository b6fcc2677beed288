// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package cniplugin

import (
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/containernetworking/cni/pkg/types"
	"github.com/google/go-cmp/cmp"

	"github.com/allocnet/allocnet/policy"
	"github.com/allocnet/allocnet/selection"
)

// parsed returns a checked plugin configuration with more keys.
func parsed(t *testing.T, more string) (*conf, error) {
	t.Helper()
	data := []byte(fmt.Sprintf(`{"cniVersion": "1.0.0", "name": "multi", "type": "allocnet-cni", %s}`, more))
	c, err := decodeConf(data)
	if err != nil {
		return nil, err
	}
	return c, c.check(data)
}

func good(t *testing.T, more string) *conf {
	t.Helper()
	c, err := parsed(t, more)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// requireError requires a CNI error with a code and with words in its message.
func requireError(t *testing.T, err error, code uint, words ...string) {
	t.Helper()
	var own *types.Error
	if !errors.As(err, &own) || own.Code != code {
		t.Errorf("got %v (%T), want a CNI error with code %d", err, err, code)
		return
	}
	for _, word := range words {
		if !strings.Contains(own.Msg, word) {
			t.Errorf("%q does not say %q", own.Msg, word)
		}
	}
}

// ArgMistakes are values of CNI_ARGS, with a word of the errors.
var ArgMistakes = map[string]string{
	"networks":               "want KEY=VALUE",
	"=a":                     "want KEY=VALUE",
	"networks=YQ==":          "has a '='",
	"NOMAD_NAMESPACE=prod=x": "has a '='",
	"networks=a;networks=b":  "is set twice",
	"networks=a${NOMAD_X}":   "Nomad does not know",
}

func TestParseArgs(t *testing.T) {
	got, err := parseArgs(`networks=[{"name":"a","ips":["10.0.0.1/24"]}];IgnoreUnknown=true;;networks.b=`)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"networks": `[{"name":"a","ips":["10.0.0.1/24"]}]`, "IgnoreUnknown": "true", "networks.b": ""}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	for text, word := range ArgMistakes {
		_, err := parseArgs(text)
		requireError(t, err, types.ErrInvalidEnvironmentVariables, word)
	}
}

func TestIdentity(t *testing.T) {
	nomad := map[string]string{"NOMAD_ALLOC_ID": "a1", "NOMAD_NAMESPACE": "prod", "NOMAD_JOB_ID": "db", "NOMAD_GROUP_NAME": "g", "NOMAD_REGION": "eu", "ADDRESS_KEY": "first", "IP": "10.0.0.9", "x": "y"}
	c := good(t, `"primary": "web"`)
	who, err := identity(nomad, c, "a1")
	if want := (policy.Identity{Namespace: "prod", Job: "db", Group: "g", Region: "eu"}); err != nil || who != want {
		t.Errorf("got %+v, %v, want %+v", who, err, want)
	}
	if got := forwarded(nomad, c); len(got) != 6 || got["IP"] != "" || got["ADDRESS_KEY"] != "first" {
		t.Errorf("forwarded: %v, want Nomad's five and the key of the address", got)
	}
	for name, change := range map[string]func(map[string]string){
		"of another allocation": func(a map[string]string) { a["NOMAD_ALLOC_ID"] = "a2" },
		"no allocation":         func(a map[string]string) { delete(a, "NOMAD_ALLOC_ID") },
		"no namespace":          func(a map[string]string) { delete(a, "NOMAD_NAMESPACE") },
	} {
		forged := maps.Clone(nomad)
		change(forged)
		if who, err := identity(forged, c, "a1"); err == nil {
			t.Errorf("%s: accepted as %+v", name, who)
		}
	}
	if who, err := identity(map[string]string{"networks": "a"}, c, "a1"); err != nil || who != (policy.Identity{}) {
		t.Errorf("Nomad before 1.9.4: %+v, %v", who, err)
	}
	old := good(t, `"primary": "web", "identity": "unknown", "passArgs": ["x"]`)
	if who, err := identity(nomad, old, "a1"); err != nil || who != (policy.Identity{}) {
		t.Errorf("forged arguments are accepted: %+v, %v", who, err)
	}
	if diff := cmp.Diff(map[string]string{"x": "y", "ADDRESS_KEY": "first"}, forwarded(nomad, old)); diff != "" {
		t.Errorf("forwarded: %s", diff)
	}
}

// TestIdentityReadFromNomad: what the agent has read is the identity. Arguments that say
// something else are refused.
func TestIdentityReadFromNomad(t *testing.T) {
	const read = `, "args": {"cni": {"identity": {"namespace": "dev", "job": "db", "group": "g", "region": "eu"}}}`
	want := policy.Identity{Namespace: "dev", Job: "db", Group: "g", Region: "eu"}
	told := func(key, value string) map[string]string {
		args := map[string]string{"NOMAD_ALLOC_ID": "a1", "NOMAD_NAMESPACE": "dev", "NOMAD_JOB_ID": "db", "NOMAD_GROUP_NAME": "g", "NOMAD_REGION": "eu"}
		args[key] = value
		return args
	}
	for name, test := range map[string]struct {
		args map[string]string
		conf string
		word string // of the error; empty: none
	}{
		"no arguments":      {},
		"the same":          {args: told("networks", "a")},
		"fewer":             {args: map[string]string{"NOMAD_ALLOC_ID": "a1", "NOMAD_NAMESPACE": "dev"}},
		"ignored":           {args: told("NOMAD_NAMESPACE", "prod"), conf: `, "identity": "unknown"`},
		"another namespace": {args: told("NOMAD_NAMESPACE", "prod"), word: `"NOMAD_NAMESPACE": is "prod", and Nomad says "dev"`},
		"another job":       {args: told("NOMAD_JOB_ID", "x"), word: "NOMAD_JOB_ID"},
		"another group":     {args: told("NOMAD_GROUP_NAME", "x"), word: "NOMAD_GROUP_NAME"},
		"another region":    {args: told("NOMAD_REGION", "x"), word: "NOMAD_REGION"},
		"of another":        {args: told("NOMAD_ALLOC_ID", "a2"), word: "NOMAD_ALLOC_ID"},
	} {
		who, err := identity(test.args, good(t, `"primary": "web"`+read+test.conf), "a1")
		if test.word != "" {
			requireError(t, err, types.ErrInvalidEnvironmentVariables, test.word)
			continue
		}
		if err != nil || who != want {
			t.Errorf("%s: %+v, %v", name, who, err)
		}
	}
	_, err := identity(told("NOMAD_REGION", "x"), good(t, `"primary": "web"`+strings.Replace(read, `, "region": "eu"`, "", 1)), "a1")
	requireError(t, err, types.ErrInvalidEnvironmentVariables, `"NOMAD_REGION": is "x", and Nomad says ""`)
	_, err = identity(nil, good(t, `"primary": "web", "args": {"cni": {"identity": "dev"}}`), "a1")
	requireError(t, err, types.ErrInvalidNetworkConfig, "args.cni: identity")
}

func TestSelected(t *testing.T) {
	args := map[string]string{
		"networks": "storage,mgmt@net5", "networks.backup": `{"interface": "net7", "ips": ["10.2.0.10/24"]}`, "networks.audit": "",
		"IgnoreUnknown": "true", "NOMAD_ALLOC_ID": "x", "NOMAD_NEW": "x", "K8S_POD_NAME": "x", "ADDRESS_KEY": "x",
	}
	got, err := selected(args, good(t, `"primary": "web", "args": {"cni": {"networks.lab": {"mtu": 1400}, "networks.iot": "{}"}}`))
	if err != nil {
		t.Fatal(err)
	}
	want := []selection.Element{
		{Name: "storage"}, {Name: "mgmt", Interface: "net5"}, {Name: "audit"}, {Name: "backup", Interface: "net7", IPs: []string{"10.2.0.10/24"}},
		{Name: "iot"}, {Name: "lab", MTU: 1400},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	got, err = selected(nil, good(t, `"primary": "web", "runtimeConfig": {"networks": [{"name": "a"}, {"name": "a"}]}`))
	if err != nil || len(got) != 2 {
		t.Errorf("capability arguments: %v, %v, want one network twice", got, err)
	}
}

func TestSelectedConflicts(t *testing.T) {
	for _, test := range []struct {
		name, conf string
		args       map[string]string
		code       uint
		words      []string
	}{
		{"twice in CNI_ARGS", "", map[string]string{"networks": "a", "networks.a": ""}, 7, []string{"CNI_ARGS", `"networks.a"`, `"networks" in CNI_ARGS`}},
		{"in args and args.cni", `, "args": {"cni": {"networks.a": {}}}`, map[string]string{"networks": "a"}, 7, []string{"args.cni", "CNI_ARGS"}},
		{"networks in two places", `, "runtimeConfig": {"networks": "b"}`, map[string]string{"networks": "a"}, 7, []string{"capability arguments", "CNI_ARGS"}},
		{"unknown argument", "", map[string]string{"network": "a"}, 4, []string{`"network"`, "unknown"}},
		{"address past the policy", "", map[string]string{"IP": "10.0.0.1"}, 4, []string{`"IP"`, "unknown"}},
		{"unknown in args.cni", `, "args": {"cni": {"ips": ["10.0.0.1"]}}`, nil, 7, []string{"args.cni", `"ips"`}},
		{"unknown key of an element", "", map[string]string{"networks": `[{"name": "a", "ip": "10.0.0.1"}]`}, 7, []string{"CNI_ARGS", "networks[0]", `"ip"`}},
		{"other name inside", "", map[string]string{"networks.a": `{"name": "b"}`}, 7, []string{"networks.a.name"}},
		{"a path", "", map[string]string{"networks": "../../etc/passwd"}, 7, []string{"networks[0].name"}},
		{"a name that is a path", "", map[string]string{"networks.../x": ""}, 7, []string{"name"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := selected(test.args, good(t, `"primary": "web"`+test.conf))
			requireError(t, err, test.code, test.words...)
		})
	}
}
