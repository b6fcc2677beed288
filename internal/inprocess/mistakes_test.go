// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package inprocess

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/allocnet/allocnet/internal/strictjson"
)

func mistakesOf(t *testing.T, name, ipam, text string) []string {
	t.Helper()
	found, err := Mistakes(name, ipam, strictjson.Text{Path: "f", Line: 1, Data: json.RawMessage(text)})
	if err != nil {
		t.Fatal(err)
	}
	var texts []string
	for _, m := range found {
		texts = append(texts, m.Error())
	}
	return texts
}

// TestMistakes: a key is a mistake if neither the reference plugin nor this package knows it.
func TestMistakes(t *testing.T) {
	for text, want := range map[string]string{
		"{\"type\": \"bridge\",\n\"isGatway\": true}":                                                                                        `unknown key "isGatway" of bridge in f:2; did you mean isGateway?`,
		`{"type": "bridge", "isgateway": true, "macspoofchk": true}`:                                                                         ``,
		`{"type": "bridge", "isGateway": true, "IsGateway": false}`:                                                                          `key "IsGateway" of bridge in f:1 is there twice: remove one of them`,
		`{"type": "bridge", "_comment": 1, "//": 2, "io.vendor/x": {"a": 1, "a": 1}}`:                                                        `key "a" of bridge.io.vendor/x in f:1 is there twice: remove one of them`,
		`{"type": "bridge", "args": {"cni": {"x": 1}}, "runtimeConfig": {"y": 1}, "capabilities": {"z": true}}`:                              ``,
		`{"type": "bridge", "vlanTrunk": [{"id": 1}, {"minId": 2, "maxid": 3, "step": 2}]}`:                                                  `unknown key "step" of bridge.vlanTrunk[1] in f:1; want minID, maxID, id`,
		`{"type": "bridge", "dns": {"nameserver": []}}`:                                                                                      `unknown key "nameserver" of bridge.dns in f:1; did you mean nameservers?`,
		"{\"type\": \"bridge\", \"ipam\": {\"type\": \"host-local\",\n\"ranges\": [[{\"subnet\": \"10.0.0.0/8\",\n\"rangeBegin\": \"\"}]]}}": `unknown key "rangeBegin" of host-local.ranges[0][0] in f:3; want rangeStart, rangeEnd, subnet, gateway`,
		`{"type": "bridge", "ipam": {"type": "host-local", "subnet": "10.0.0.0/8", "routes": [{"dst": "::/0", "gateway": "::1"}]}}`:          `unknown key "gateway" of host-local.routes[0] in f:1; want Dst, GW, MTU, AdvMSS, Priority, Table, Scope`,
	} {
		if got := strings.Join(mistakesOf(t, "bridge", "host-local", text), "\n"); got != want {
			t.Errorf("%s\ngot  %s\nwant %s", text, got, want)
		}
	}
	if got := mistakesOf(t, "calico", "calico-ipam", `{"type": "calico", "any": 1, "any": 2, "ipam": {"x": 1}}`); got != nil {
		t.Errorf("of a foreign plugin: %s", got)
	}
}

// TestMisspelledKeys: of each key of each type, no misspelling passes, and the key itself does.
func TestMisspelledKeys(t *testing.T) {
	for name, p := range plugins {
		var known []string
		for _, f := range reflect.VisibleFields(reflect.TypeOf(p.Config()).Elem()) {
			if key, _, _ := strings.Cut(f.Tag.Get("json"), ","); key != "" && key != "-" {
				known = append(known, key)
			}
		}
		for _, key := range known {
			if got := mistakesOf(t, name, "", fmt.Sprintf(`{%q: null}`, key)); got != nil {
				t.Errorf("%s: %s", name, got)
			}
			for i := range key {
				misspelled := key[:i] + key[i+1:]
				if isRemark(misspelled) || slices.ContainsFunc(known, func(k string) bool { return strings.EqualFold(k, misspelled) }) || misspelled == "" {
					continue
				}
				if got := mistakesOf(t, name, "", fmt.Sprintf(`{%q: null}`, misspelled)); len(got) != 1 || !strings.Contains(got[0], fmt.Sprintf("unknown key %q of %s in f:1", misspelled, name)) {
					t.Errorf("%s: %q: %s", name, misspelled, got)
				}
			}
		}
	}
}
