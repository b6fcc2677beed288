// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package onrecord

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/containernetworking/cni/libcni"

	"github.com/allocnet/allocnet/cniconf"
	"github.com/allocnet/allocnet/internal/sysctl"
	"github.com/allocnet/allocnet/state"
)

// settings are what a kernel has: parameters by their paths, and properties such as "eth0 mtu".
type settings map[string]any

// modelled are the interfaces whose parameters the kernel sets with those of all.
var modelled = []string{"all", "default", "eth0", "eth1", "eth2"}

// set sets one, and returns the names of all that it sets.
func (s settings) set(name string, value any) (names []string) {
	if name == "net/ipv4/ip_forward" {
		name = "net/ipv4/conf/all/forwarding"
	}
	names = append(names, name)
	if at := strings.Index(name, "/conf/all/"); at >= 0 && (strings.HasSuffix(name, "/forwarding") || strings.HasSuffix(name, "/disable_ipv6")) {
		for _, iface := range modelled {
			names = append(names, strings.Replace(name, "/all/", "/"+iface+"/", 1))
		}
	}
	for _, each := range names {
		s[each] = value
	}
	return names
}

// tuned returns what a plugin sets, as names and values in order.
func tuned(t *testing.T, p *libcni.PluginConfig, a state.Attachment) (all [][2]any) {
	t.Helper()
	type values struct {
		Sysctl   map[string]string
		MAC      *string
		MTU      *int
		Allmulti *bool
		TxQLen   *int
	}
	var conf struct {
		values
		Capabilities map[string]bool
		Args         struct{ CNI values }
	}
	if err := json.Unmarshal(p.Bytes, &conf); err != nil {
		t.Fatal(err)
	}
	if mac, ok := a.CapabilityArgs["mac"].(string); ok && conf.Capabilities["mac"] {
		conf.MAC = &mac
	}
	if conf.Sysctl != nil {
		maps.Copy(conf.Sysctl, conf.Args.CNI.Sysctl)
	}
	for _, key := range sysctl.InOrder(conf.Sysctl) {
		path, _ := sysctl.Path(key, a.Interface)
		all = append(all, [2]any{path, conf.Sysctl[key]})
	}
	of, args := reflect.ValueOf(conf.values), reflect.ValueOf(conf.Args.CNI)
	for _, key := range []string{"MAC", "MTU", "Allmulti", "TxQLen"} {
		value := of.FieldByName(key)
		if given := args.FieldByName(key); !given.IsNil() {
			value = given
		}
		if value.IsNil() || (key == "MAC" || key == "MTU") && value.Elem().IsZero() {
			continue
		}
		all = append(all, [2]any{a.Interface + " " + key, value.Elem().Interface()})
	}
	return all
}

// randomSettings returns those of a plugin, or of its arguments. No two of them are one parameter.
func randomSettings(chance *rand.Rand) map[string]any {
	values := map[string]any{"sysctl": map[string]any{}}
	keys := []string{
		[]string{"net.ipv4.ip_forward", "net.ipv4.conf.all.forwarding"}[chance.IntN(2)], "net.ipv4.conf.IFNAME.forwarding", "net.ipv6.conf.all.disable_ipv6",
		[]string{"net.ipv6.conf.eth1.disable_ipv6", "net/ipv6/conf/IFNAME/disable_ipv6"}[chance.IntN(2)], "net.ipv4.tcp_syncookies", "net/ipv4/conf/all/rp_filter", "net.ipv4.conf.IFNAME.rp_filter",
	}
	for _, key := range keys {
		if chance.IntN(4) == 0 {
			values["sysctl"].(map[string]any)[key] = fmt.Sprint(chance.IntN(2))
		}
	}
	for key, some := range map[string][]any{"mac": {"", "a", "b"}, "mtu": {0, 1300, 1400}, "allmulti": {false, true}, "txQLen": {0, 500}} {
		if chance.IntN(3) == 0 {
			values[key] = some[chance.IntN(len(some))]
		}
	}
	return values
}

// randomAttachment returns one with one to three plugins tuning.
func randomAttachment(t *testing.T, chance *rand.Rand, index int) state.Attachment {
	t.Helper()
	plugins := []any{map[string]any{"type": "bridge"}}
	for range 1 + chance.IntN(3) {
		p := randomSettings(chance)
		p["type"], p["capabilities"] = "tuning", map[string]any{"mac": chance.IntN(2) == 0}
		if chance.IntN(3) == 0 {
			args := randomSettings(chance)
			delete(args, "sysctl") // it might have the other name of a parameter
			p["args"] = map[string]any{"cni": args}
		}
		plugins = append(plugins, p, map[string]any{"type": "portmap"})
	}
	list, err := json.Marshal(map[string]any{"cniVersion": "1.0.0", "name": "n", "plugins": plugins})
	if err != nil {
		t.Fatal(err)
	}
	a := state.Attachment{Interface: fmt.Sprint("eth", index), Index: index, Phase: state.Attached, Status: []byte("{}"), ConfList: list}
	if chance.IntN(2) == 0 {
		a.CapabilityArgs = map[string]any{"mac": "c"}
	}
	return a
}

// differs returns the first setting of the attachments that is another one than they are checked for; empty if there is none.
func (s settings) differs(t *testing.T, attachments []state.Attachment) string {
	t.Helper()
	for _, a := range attachments {
		recorded, err := List(a)
		if err != nil {
			t.Fatal(err)
		}
		list, err := ListToCheck(recorded, a, attachments)
		if err != nil {
			t.Fatal(err)
		}
		for i, p := range list.Plugins {
			if p.Network.Type != "tuning" {
				continue
			}
			for _, pair := range tuned(t, p, a) {
				name, value := pair[0].(string), pair[1]
				if name == "net/ipv4/ip_forward" {
					name = "net/ipv4/conf/all/forwarding"
				}
				if s[name] != value {
					return fmt.Sprintf("%s of plugin %d of %s is %v, want %v", name, i, a.Interface, s[name], value)
				}
			}
		}
	}
	return ""
}

// TestLastSettingCounts: after ADD of attachments whose plugins set the same things, every CHECK finds what it wants, and each
// setting that another program changes is noticed. When one is detached, those of the others are theirs again.
func TestLastSettingCounts(t *testing.T) {
	for seed := range uint64(200) {
		chance := rand.New(rand.NewPCG(seed, 1))
		has, explicit := settings{}, map[string]bool{}
		var attachments []state.Attachment
		for i := range 1 + chance.IntN(3) {
			a := randomAttachment(t, chance, i)
			attachments = append(attachments, a)
			list, err := List(a)
			if err != nil {
				t.Fatal(err)
			}
			for _, p := range list.Plugins {
				if p.Network.Type != "tuning" {
					continue
				}
				for _, pair := range tuned(t, p, a) {
					names := has.set(pair[0].(string), pair[1])
					for _, name := range names[1:] {
						explicit[name] = false
					}
					explicit[names[0]] = true
				}
			}
		}
		if differs := has.differs(t, attachments); differs != "" {
			t.Fatalf("seed %d: %s", seed, differs)
		}
		for name := range explicit {
			changed := maps.Clone(has)
			if changed[name] = "of another program"; explicit[name] && changed.differs(t, attachments) == "" {
				t.Fatalf("seed %d: it is not noticed that %s is another one", seed, name)
			}
		}
		at := chance.IntN(len(attachments))
		kept := slices.Delete(slices.Clone(attachments), at, at+1)
		for _, p := range Overlaid(kept, attachments[at:at+1]) {
			has.set(p.Path, p.Value)
		}
		if differs := has.differs(t, kept); differs != "" {
			t.Fatalf("seed %d: without eth%d: %s", seed, at, differs)
		}
		again := attachments[at]
		for _, p := range append(parameters(again), Overlaid(Later(again, attachments), attachments[at:at+1])...) {
			has.set(p.Path, p.Value)
		}
		if differs := has.differs(t, attachments); differs != "" {
			t.Fatalf("seed %d: with eth%d again: %s", seed, at, differs)
		}
	}
}

// TestIncompleteAttachmentSetsNothing: it is not known what it has set, and a mistake in a conflist keeps no other one from being checked.
func TestIncompleteAttachmentSetsNothing(t *testing.T) {
	of := func(value string) []byte {
		return fmt.Appendf(nil, `{"cniVersion": "1.0.0", "name": "n", "plugins": [{"type": "tuning", "sysctl": {"net.ipv4.tcp_syncookies": %q}}]}`, value)
	}
	first := state.Attachment{Interface: "eth0", Phase: state.Attached, Status: []byte("{}"), ConfList: of("0")}
	list, err := List(first)
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		phase state.Phase
		list  []byte
		want  int
	}{
		"attached": {state.Attached, of("1"), 0}, "deleting": {state.Deleting, of("1"), 1}, "mistake": {state.Attached, []byte(`{"sysctl"`), 1},
	} {
		second := state.Attachment{Interface: "eth1", Index: 1, Phase: test.phase, Status: []byte("{}"), ConfList: test.list}
		checked, err := ListToCheck(list, first, []state.Attachment{second, first})
		if err != nil {
			t.Fatal(err)
		}
		if got := Parameters(cniconf.Chain(checked), "eth0"); len(got) != test.want {
			t.Errorf("%s: %v", name, got)
		}
	}
	if got := Parameters(cniconf.Chain(list), "eth0"); len(got) != 1 {
		t.Errorf("the conflist on record has changed: %v", got)
	}
}

// TestOnlyOverlaidParametersAreSetAgain: what nothing else has set, a task may have changed.
func TestOnlyOverlaidParametersAreSetAgain(t *testing.T) {
	of := func(sysctl string) []state.Attachment {
		list := fmt.Appendf(nil, `{"cniVersion": "1.0.0", "name": "n", "plugins": [{"type": "tuning", "sysctl": {%s}}]}`, sysctl)
		return []state.Attachment{{Interface: "eth0", Phase: state.Attached, Status: []byte("{}"), ConfList: list}}
	}
	kept := of(`"net.ipv4.tcp_syncookies": "0", "net.ipv4.conf.IFNAME.rp_filter": "2"`)
	want := []Parameter{{"net/ipv4/tcp_syncookies", "0"}}
	if got := Overlaid(kept, of(`"net.ipv4.tcp_syncookies": "1"`)); !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}
