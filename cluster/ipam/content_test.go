// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package ipam

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"
)

// TestContents: what is stored is read as it was, and what others have made of it is refused
// with a reason.
func TestContents(t *testing.T) {
	c := mustParse(t, `{"pool": "p", "reserved": ["10.0.0.4/30"], "ranges": [{"subnet": "10.0.0.0/24"}]}`)
	host := Host{Instance: strings.Repeat("a", 32), NodeID: "n", NodeName: "name", MachineID: "m", Boot: "b"}
	block := BlockContent{Pool: "p", PoolHash: c.Hash(), Block: netip.MustParsePrefix("10.0.0.64/26"), Host: host, ClaimID: "c", Claimed: time.Unix(1, 0).UTC()}
	if got, err := DecodeBlock(Encode(block), c); err != nil || got != block {
		t.Errorf("the block is %+v, %v", got, err)
	}
	reached := block
	reached.Endpoint = Endpoint{Address: netip.MustParseAddr("10.1.0.5"), LinkLocal: netip.MustParseAddr("fe80::1"), MAC: "02:00:5e:00:53:01"}
	if got, err := DecodeBlock(Encode(reached), c); err != nil || got != reached {
		t.Errorf("the block with an endpoint is %+v, %v", got, err)
	}
	address := AddressContent{Pool: "p", Address: netip.MustParseAddr("10.0.0.5"), State: Held, Host: host, ClaimID: "c", Owner: Owner{"id", "eth0"}, Job: Job{Namespace: "default", Key: "0"}}
	if got, err := DecodeAddress(Encode(address), c); err != nil || got != address {
		t.Errorf("the address is %+v, %v", got, err)
	}
	node := NodeContent{Host: host, Nonce: "n"}
	if got, err := DecodeNode(Encode(node)); err != nil || got != node {
		t.Errorf("the node is %+v, %v", got, err)
	}
	indented := bytes.ReplaceAll(Encode(block), []byte(`,`), []byte(",\n  "))
	if got, err := DecodeBlock(indented, c); err != nil || got != block {
		t.Errorf("the indented block is %+v, %v", got, err)
	}
	if size := len(Encode(block)); size > 512 {
		t.Errorf("a block has %d bytes", size)
	}
}

// TestStoredBlock: a block without an endpoint is stored as it was before there were endpoints.
func TestStoredBlock(t *testing.T) {
	block := BlockContent{
		Pool: "p", PoolHash: "0123456789abcdef", Block: netip.MustParsePrefix("10.0.0.64/26"), ClaimID: "c", Claimed: time.Unix(1, 0).UTC(),
		Host: Host{Instance: strings.Repeat("a", 32), NodeID: "n", NodeName: "name", MachineID: "m", Boot: "b"},
	}
	want := `{"version":1,"checksum":"f48301ec1f5cc9d7","content":{"pool":"p","poolHash":"0123456789abcdef","block":"10.0.0.64/26","host":{"instance":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","nodeID":"n","nodeName":"name","machineID":"m","boot":"b"},"claimID":"c","claimed":"1970-01-01T00:00:01Z"}}`
	if got := string(Encode(block)); got != want {
		t.Errorf("the block is %s, want %s", got, want)
	}
}

// TestRefusedContents: each names what is wrong.
func TestRefusedContents(t *testing.T) {
	c := mustParse(t, `{"pool": "p", "reserved": ["10.0.0.4/30"], "ranges": [{"subnet": "10.0.0.0/24"}]}`)
	host := Host{Instance: strings.Repeat("a", 32)}
	good := BlockContent{Pool: "p", Block: netip.MustParsePrefix("10.0.0.64/26"), Host: host}
	block := func(change func(*BlockContent)) []byte {
		b := good
		change(&b)
		return Encode(b)
	}
	for want, data := range map[string][]byte{
		"not JSON":                       []byte("x"),
		"65537 bytes: want at most":      bytes.Repeat([]byte(" "), 65537),
		"version 2: want 1":              bytes.Replace(Encode(good), []byte(`"version":1`), []byte(`"version":2`), 1),
		"checksum":                       bytes.Replace(Encode(good), []byte("10.0.0.64"), []byte("10.0.0.0"), 1),
		"there is no content":            []byte(`{"version":1}`),
		"of another kind":                Encode([]int{1}),
		`of the pool "q": want p`:        block(func(b *BlockContent) { b.Pool = "q" }),
		"has no block":                   block(func(b *BlockContent) { b.Block = Block{} }),
		"10.0.1.0/26, which is no block": block(func(b *BlockContent) { b.Block = netip.MustParsePrefix("10.0.1.0/26") }),
		"10.0.0.0/25, which is no block": block(func(b *BlockContent) { b.Block = netip.MustParsePrefix("10.0.0.0/25") }),
		`instance "": want 32`:           block(func(b *BlockContent) { b.Host.Instance = "" }),
	} {
		if _, err := DecodeBlock(data, c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error is %v, want %s", err, want)
		}
	}
	for want, a := range map[string]AddressContent{
		`of the pool ""`:                  {},
		`state "": want held or free`:     {Pool: "p"},
		"10.0.0.9, which is not reserved": {Pool: "p", State: Held, Address: netip.MustParseAddr("10.0.0.9")},
		"instance":                        {Pool: "p", State: Held, Address: netip.MustParseAddr("10.0.0.5")},
	} {
		if _, err := DecodeAddress(Encode(a), c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error is %v, want %s", err, want)
		}
	}
}

// TestLongContents: an error quotes little of what another host wrote.
func TestLongContents(t *testing.T) {
	c := mustParse(t, `{"pool": "p", "reserved": ["10.0.0.4/30"], "ranges": [{"subnet": "10.0.0.0/24"}]}`)
	long := strings.Repeat("1", 60_000)
	zone := netip.MustParseAddr("fe80::1").WithZone(long)
	block := BlockContent{Pool: "p", Block: netip.MustParsePrefix("10.0.0.64/26")}
	errs := map[string]error{}
	for name, data := range map[string][]byte{
		"checksum": []byte(`{"version":1,"checksum":"` + long + `","content":{}}`),
		"version":  []byte(`{"version":` + long + `}`),
		"number":   Encode(map[string]any{"pool": json.RawMessage(long)}),
		"block":    Encode(map[string]any{"pool": "p", "block": long}),
		"time":     Encode(map[string]any{"pool": "p", "claimed": long}),
		"pool":     Encode(BlockContent{Pool: long}),
		"instance": Encode(BlockContent{Pool: "p", Block: block.Block, Host: Host{Instance: long}}),
	} {
		_, errs[name] = DecodeBlock(data, c)
	}
	_, errs["configuration of another pool"] = DecodePool(Encode(PoolContent{Pool: long}), "p")
	_, errs["mode"] = DecodePool(Encode(PoolContent{Pool: "p", Ranges: c.Ranges, BlockSize: c.BlockSize, Mode: Mode(long)}), "p")
	_, errs["address of another pool"] = DecodeAddress(Encode(AddressContent{Pool: long}), c)
	_, errs["state"] = DecodeAddress(Encode(AddressContent{Pool: "p", State: AddressState(long)}), c)
	_, errs["address"] = DecodeAddress(Encode(AddressContent{Pool: "p", State: Held, Address: zone}), c)
	errs["address of a node"] = Endpoint{Address: zone}.Validate()
	errs["link-local address"] = Endpoint{Address: netip.MustParseAddr("192.0.2.1"), LinkLocal: zone}.Validate()
	for name, err := range errs {
		if err == nil || len(err.Error()) > 400 {
			t.Errorf("%s: an error of %d bytes: %.200s", name, len(fmt.Sprint(err)), fmt.Sprint(err))
		}
	}
}

// TestPaths: each kind of entry is found by its path, and no other path is one.
func TestPaths(t *testing.T) {
	for path, want := range map[string]Path{
		"allocnet/ipam/1/p/pool":                                                                 {Pool: "p"},
		"allocnet/ipam/1/p/b/0a000040-26":                                                        {Pool: "p", Block: netip.MustParsePrefix("10.0.0.64/26")},
		"allocnet/ipam/1/p/b/fd000000000000000000000000000040-122":                               {Pool: "p", Block: netip.MustParsePrefix("fd00::40/122")},
		"allocnet/ipam/1/p/a/0a000005":                                                           {Pool: "p", Address: netip.MustParseAddr("10.0.0.5")},
		"allocnet/ipam/1/nodes/0123456789abcdef0123456789abcdef":                                 {Instance: "0123456789abcdef0123456789abcdef"},
		"allocnet/ipam/1/" + strings.Repeat("p", 63) + "/b/fd000000000000000000000000000040-122": {Pool: strings.Repeat("p", 63), Block: netip.MustParsePrefix("fd00::40/122")},
	} {
		if got, err := ParsePath(path); err != nil || got != want || len(path) > 128 {
			t.Errorf("%s is %+v, %v", path, got, err)
		}
	}
	for _, path := range []string{
		"", "allocnet/ipam/1/", "allocnet/ipam/1/p", "allocnet/ipam/1/p/", "allocnet/ipam/1/p/pool/", "allocnet/ipam/1/p/pools", "allocnet/ipam/2/p/pool", "allocnet/ipam/1/P/pool",
		"allocnet/ipam/1/nodes/pool", "allocnet/ipam/1/nodes/0123", "allocnet/ipam/1/p/b/0a000040", "allocnet/ipam/1/p/b/0a000041-26", "allocnet/ipam/1/p/b/0A000040-26",
		"allocnet/ipam/1/p/b/0a000040-026", "allocnet/ipam/1/p/b/0a000040-33", "allocnet/ipam/1/p/b/0a0000-26", "allocnet/ipam/1/p/a/0a00", "allocnet/ipam/1/p/a/", "allocnet/ipam/1/p/c/0a000005",
	} {
		if got, err := ParsePath(path); err == nil {
			t.Errorf("%q is %+v", path, got)
		}
	}
}
