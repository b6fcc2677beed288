// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package repair

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/allocnet/allocnet/hook"
)

// TestLongDetails: the rules and leases of an attachment are those that the host's programs print, and
// what is missing is told from what is there.
func TestLongDetails(t *testing.T) {
	for _, test := range []struct{ executor, backend, damage, missing string }{
		{hook.ExecutorAuto, "iptables", "iptables -D CNI-FORWARD -s $ADDRESS -j ACCEPT", "iptables filter CNI-FORWARD"},
		{hook.ExecutorPlugins, "iptables", "ip6tables -t nat -F CNI-HOSTPORT-DNAT", "ip6tables nat CNI-HOSTPORT-DNAT"},
		{hook.ExecutorAuto, "nftables", "nft flush chain ip cni_hostport hostports", "nft ip cni_hostport hostports"},
		{hook.ExecutorPlugins, "nftables", "nft delete table inet cni_plugins_masquerade", "nft inet cni_plugins_masquerade masq_checks"},
	} {
		t.Run(test.executor+" "+test.backend, func(t *testing.T) {
			h := newHost(t, test.executor, test.backend)
			a := h.attach("one", 8080, further...)
			defer h.detach("one")
			before := h.picture("one")
			if missing := h.requireListed(h.details("one")); len(missing) > 0 {
				t.Errorf("missing are %q of what was just made", missing)
			}
			shell(t, h.variables(a)+test.damage)
			missing := h.requireListed(h.details("one"))
			if len(missing) == 0 || slices.ContainsFunc(missing, func(where string) bool { return where != test.missing }) {
				t.Errorf("missing are rules in %q, want those in %q alone", missing, test.missing)
			}
			if _, err := h.engine.RepairAttachments(t.Context(), hook.RepairRequest{}); err != nil {
				t.Error(err)
			}
			h.requireSame(before, "one")
			if test.executor == hook.ExecutorPlugins { // which leave rules of an interface that is gone
				return
			}
			shell(t, "ip -n one link del eth0")
			if d := h.details("one")[0]; !strings.Contains(d.RulesError, "interface veth") || len(d.Leases) != 2 {
				t.Errorf("without the interface: %+v", d)
			}
		})
	}
}

func (h *host) details(id string) []hook.Details {
	h.Helper()
	all, err := h.engine.Details(h.Context(), id)
	if err != nil {
		h.Fatal(err)
	}
	return all
}

// requireListed fails unless the host's programs print the rules that are there, and only those,
// and all addresses have a lease. It returns where rules are missing.
func (h *host) requireListed(all []hook.Details) (missing []string) {
	h.Helper()
	printed := map[string]string{"nft": h.run("nft list ruleset"), "iptables": h.run("iptables-save"), "ip6tables": h.run("ip6tables-save")}
	rules := 0
	for _, d := range all {
		if d.RulesError != "" {
			h.Errorf("%s: %s", d.Interface, d.RulesError)
		}
		for _, r := range d.Rules {
			rules++
			if strings.Contains(printed[r.Program], r.Rule) != r.Present {
				h.Errorf("%+v, which the program contradicts:\n%s", r, printed[r.Program])
			}
			if !r.Present {
				missing = append(missing, fmt.Sprintf("%s %s %s", r.Program, r.Table, r.Chain))
			}
		}
		if len(d.Leases) == 0 || slices.ContainsFunc(d.Leases, func(l hook.Lease) bool { return l.Problem != "" || l.Since.IsZero() }) {
			h.Errorf("%s has the leases %+v", d.Interface, d.Leases)
		}
	}
	if rules < 13 {
		h.Errorf("only %d rules are listed: %+v", rules, all)
	}
	return missing
}
