// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package plugin

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"reflect"
	"strings"
	"testing"

	"github.com/containernetworking/cni/pkg/types"
	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/cluster/ipam"
)

// configWith returns a plugin's configuration with more keys.
func configWith(keys string) []byte {
	return []byte(`{"cniVersion": "1.0.0", "name": "vlan", "type": "macvlan", "ipam": {"type": "allocnet-ipam", "pool": "p", "ranges": [{"subnet": "10.0.0.0/24"}]}` + keys + `}`)
}

func addresses(texts ...string) []netip.Addr {
	var all []netip.Addr
	for _, text := range texts {
		all = append(all, netip.MustParseAddr(text))
	}
	return all
}

func TestRequest(t *testing.T) {
	nomad := "IgnoreUnknown=true;NOMAD_ALLOC_ID=a1;NOMAD_NAMESPACE=prod;NOMAD_JOB_ID=db;NOMAD_GROUP_NAME=main"
	job := ipam.Job{Namespace: "prod", Job: "db", Group: "main", Allocation: "a1"}
	keyed := func(key string) ipam.Job {
		k := job
		k.Key = key
		return k
	}
	for name, test := range map[string]struct {
		id, args, keys string
		addresses      []netip.Addr
		job            ipam.Job
	}{
		"nothing":               {id: "a1"},
		"other runtimes":        {id: "a1", args: "IgnoreUnknown=1;K8S_POD_NAME=x;FOO=bar"},
		"in CNI_ARGS":           {id: "a1", args: "IP=10.0.0.9", addresses: addresses("10.0.0.9")},
		"in args":               {id: "a1", keys: `, "args": {"cni": {"ips": ["10.0.0.9", "fd00::9"]}}`, addresses: addresses("10.0.0.9", "fd00::9")},
		"of the capability":     {id: "a1", keys: `, "runtimeConfig": {"ips": ["10.0.0.9/24"]}`, addresses: addresses("10.0.0.9")},
		"one in three places":   {id: "a1", args: "IP=10.0.0.9", keys: `, "args": {"cni": {"ips": ["10.0.0.9/24"]}}, "runtimeConfig": {"ips": ["::ffff:10.0.0.9"]}`, addresses: addresses("10.0.0.9")},
		"Nomad":                 {id: "a1", args: nomad, job: job},
		"an extra attachment":   {id: "a1.allocnet.eth1", args: nomad, job: job},
		"an index":              {id: "a1", args: nomad + ";NOMAD_ALLOC_INDEX=2", job: keyed("2")},
		"a key and an index":    {id: "a1", args: nomad + ";NOMAD_ALLOC_INDEX=2;ADDRESS_KEY=main", job: keyed("main")},
		"a key in args":         {id: "a1", args: nomad + ";NOMAD_ALLOC_INDEX=2", keys: `, "args": {"cni": {"addressKey": "first"}}`, job: keyed("first")},
		"another allocation":    {id: "a2", args: nomad + ";NOMAD_ALLOC_INDEX=2"},
		"a key without Nomad":   {id: "a1", keys: `, "args": {"cni": {"addressKey": "first"}}`},
		"args of other plugins": {id: "a1", keys: `, "args": {"cni": {"labels": [{"key": "a"}]}}`},
	} {
		got, err := Call{ContainerID: test.id, Interface: "eth0", Args: test.args, Config: configWith(test.keys)}.request()
		want := ipam.Request{Owner: ipam.Owner{ContainerID: test.id, Interface: "eth0"}, Addresses: test.addresses, Job: test.job}
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %+v, %v, want %+v", name, got, err, want)
		}
	}
}

// TestRequestToPublish: the addresses are those of the operator alone, whatever the job asks for, and no key but the allocation's job counts.
func TestRequestToPublish(t *testing.T) {
	keys := `, "args": {"cni": {"ips": ["10.0.0.8"], "addressKey": "first"}, "allocnet": {"publish": ["10.0.0.9", "fd00::9"]}}, "runtimeConfig": {"ips": ["10.0.0.7"]}`
	got, err := Call{ContainerID: "a1", Interface: "eth0", Args: "IP=10.0.0.6;NOMAD_ALLOC_ID=a1;NOMAD_NAMESPACE=prod;NOMAD_JOB_ID=db", Config: configWith(keys)}.request()
	want := ipam.Request{
		Owner: ipam.Owner{ContainerID: "a1", Interface: "eth0"}, Addresses: addresses("10.0.0.9", "fd00::9"), Published: true,
		Job: ipam.Job{Namespace: "prod", Job: "db", Allocation: "a1"},
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %v, want %+v", got, err, want)
	}
}

func TestInvalidCalls(t *testing.T) {
	for name, test := range map[string]struct {
		args, keys string
		code       uint
		words      string
	}{
		"an address in CNI_ARGS": {args: "IP=10.0.0", code: types.ErrInvalidEnvironmentVariables, words: `IP in CNI_ARGS: "10.0.0": want an address`},
		"a pair":                 {args: "IP", code: types.ErrInvalidEnvironmentVariables, words: `CNI_ARGS has "IP": want KEY=VALUE`},
		"a value":                {args: "IP=a=b", code: types.ErrInvalidEnvironmentVariables, words: "want KEY=VALUE"},
		"a key twice":            {args: "IP=10.0.0.9;IP=10.0.0.8", code: types.ErrInvalidEnvironmentVariables, words: "has IP twice"},
		"an address with a zone": {keys: `, "args": {"cni": {"ips": ["fe80::1%eth0"]}}`, code: types.ErrInvalidNetworkConfig, words: `args.cni.ips: "fe80::1%eth0"`},
		"the capability":         {keys: `, "runtimeConfig": {"ips": ["x"]}`, code: types.ErrInvalidNetworkConfig, words: `runtimeConfig.ips: "x"`},
		"another type":           {keys: `, "runtimeConfig": {"ips": "x"}`, code: types.ErrDecodingFailure, words: "ips"},
	} {
		_, err := Call{ContainerID: "a1", Interface: "eth0", Args: test.args, Config: configWith(test.keys)}.request()
		requireCode(t, name, err, test.code, test.words)
	}
	for config, words := range map[string]string{
		`{"name": "a"}`:             `the key "ipam" is missing`,
		`{"name": "a", "ipam": {}}`: "pool",
		`{"name": "a", "ipam": {"type": "allocnet-ipam", "pool": "p", "ranges": [{"subnet": "10.0.0.0/24"}], "range": 1}}`: `unknown field "range"`,
	} {
		_, err := parsePool([]byte(config))
		requireCode(t, config, err, types.ErrInvalidNetworkConfig, words)
	}
}

func requireCode(t *testing.T, name string, err error, code uint, words string) {
	t.Helper()
	var own *types.Error
	if !errors.As(err, &own) || own.Code != code || !strings.Contains(own.Msg, words) {
		t.Errorf("%s: %v, want code %d and %q", name, err, code, words)
	}
}

// TestPrevious: the addresses of the pool are those that ADD gave, with their prefix lengths and
// gateways.
func TestPrevious(t *testing.T) {
	for result, want := range map[string]string{
		`{"address": "10.0.0.9/24"}, {"address": "192.0.2.1/24"}`: "",
		`{"address": "10.0.0.9/24", "gateway": "10.0.0.1"}`:       "",
		`{"address": "10.0.0.9/25"}`:                              "prevResult has 10.0.0.9/25",
		`{"address": "10.0.0.9/24", "gateway": "10.0.0.254"}`:     "with the gateway 10.0.0.254: want 10.0.0.9/24 with 10.0.0.1",
	} {
		config := configWith(`, "prevResult": {"cniVersion": "1.0.0", "ips": [` + result + `]}`)
		pool, err := parsePool(config)
		if err != nil {
			t.Fatal(err)
		}
		got, err := Call{Config: config}.previous(pool)
		if want != "" {
			requireCode(t, result, err, types.ErrInternal, want)
		} else if err != nil || !reflect.DeepEqual(got, addresses("10.0.0.9")) {
			t.Errorf("%s: %v, %v", result, got, err)
		}
	}
	_, err := Call{Config: configWith("")}.previous(nil)
	requireCode(t, "no result", err, types.ErrInvalidNetworkConfig, "prevResult is missing")
}

// TestCodes has the codes that tell a runtime whether to try again.
func TestCodes(t *testing.T) {
	for err, code := range map[error]uint{
		ipam.ErrInvalid: types.ErrInvalidNetworkConfig, ipam.ErrMismatch: types.ErrInvalidNetworkConfig, ipam.ErrTwin: types.ErrInvalidNetworkConfig,
		ipam.ErrExhausted: types.ErrTryAgainLater, ipam.ErrFenced: types.ErrTryAgainLater, ipam.ErrUnavailable: types.ErrTryAgainLater, ipam.ErrRefused: types.ErrTryAgainLater,
		ipam.ErrConflict: types.ErrTryAgainLater, context.DeadlineExceeded: types.ErrTryAgainLater, context.Canceled: types.ErrTryAgainLater,
		ipam.ErrNoLease: types.ErrInternal, &fs.PathError{Op: "write", Path: "/x", Err: unix.ENOSPC}: types.ErrIOFailure,
	} {
		requireCode(t, err.Error(), cniError(fmt.Errorf("pool p: %w:\nmore", err)), code, "pool p: "+err.Error()+":; more")
	}
	if err := errors.Join(cniError(nil), codedUnlessNil(types.ErrPluginNotAvailable, nil)); err != nil {
		t.Errorf("no error is %v", err)
	}
	requireCode(t, "STATUS", codedUnlessNil(types.ErrPluginNotAvailable, ipam.ErrExhausted), types.ErrPluginNotAvailable, "no free address")
}
