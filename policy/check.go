// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package policy

import (
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strings"

	"github.com/allocnet/allocnet/internal/errdefs"
	"github.com/allocnet/allocnet/state"
)

// Identity is the namespace and job of an allocation, from the orchestrator itself.
type Identity = state.Identity

// Attachment is the part of a request that rules apply to.
type Attachment struct {
	Network   string
	Interface string
	// Rules are the network's own.
	Rules Source
	// Existing is the number of attachments that the allocation has to the network.
	Existing int
	// StaticIPs, StaticMAC and MTU tell whether the job chooses them.
	StaticIPs, StaticMAC, MTU bool
	// Narrows is whether the job narrows its traffic.
	Narrows bool
	// Addresses are those that the job chooses, with a length of -1 where it chooses none, and
	// HasRanges is whether the network's IPAM plugin gives addresses from ranges only.
	Addresses []netip.Prefix
	HasRanges bool
	// HostPorts are the host ports that the job chooses.
	HostPorts []PortRange
}

// DeniedError is an attachment that a rule denies.
type DeniedError struct {
	Network   string
	Interface string
	// Rule is the key of the rule, and File the file that has it.
	Rule, File string
	// Reason is the value that is denied, and what the rule allows.
	Reason string
}

func (e *DeniedError) Error() string {
	return fmt.Sprintf("network %q as %s is denied: %s (rule %q in %s)", e.Network, e.Interface, e.Reason, e.Rule, e.File)
}

// Kind is that of package errdefs.
func (*DeniedError) Kind() errdefs.Kind { return errdefs.Refused }

// Check applies the rules of the networks and of the host to the attachments of one
// allocation. The error is the *DeniedError of the first that is denied.
func Check(identity Identity, host Source, attachments []Attachment) error {
	count := map[string]int{}
	for _, a := range attachments {
		count[a.Network]++
		if err := a.check(identity, host, a.Existing+count[a.Network]); err != nil {
			return err
		}
	}
	return nil
}

func (a Attachment) check(identity Identity, host Source, count int) error {
	if err := a.checkIdentity(identity, host); err != nil {
		return err
	}
	if limit, file := first(a.Rules, host, func(r Rules) *int { return r.MaxAttachments }); limit != nil && count > *limit {
		return a.denied("maxAttachments", file, fmt.Sprintf("an allocation may attach to it %d times", *limit))
	}
	if err := a.checkChoices(host); err != nil {
		return err
	}
	if a.Narrows && !a.Rules.Narrow {
		return a.denied("narrow", a.Rules.File, `a job may narrow its traffic only where each of its networks has "narrow": true: omit "ingress" and "egress"`)
	}
	if err := a.checkAddresses(host); err != nil {
		return err
	}
	return a.checkHostPorts(host)
}

func (a Attachment) denied(rule, file, reason string) error {
	return &DeniedError{a.Network, a.Interface, rule, file, reason}
}

func (a Attachment) checkIdentity(identity Identity, host Source) error {
	for _, rule := range []struct {
		key, field, value string
		of                func(Rules) []string
	}{
		{"namespaces", "namespace", identity.Namespace, func(r Rules) []string { return r.Namespaces }},
		{"jobs", "job", identity.Job, func(r Rules) []string { return r.Jobs }},
	} {
		if file, reason := decide(rule.field, rule.value, rule.of, a.Rules, host); reason != "" {
			return a.denied(rule.key, file, reason)
		}
	}
	return nil
}

// checkChoices denies options of the attachment that the rules reserve to the network.
func (a Attachment) checkChoices(host Source) error {
	for _, rule := range []struct {
		key, reason string
		chosen      bool
		of          func(Rules) *bool
	}{
		{"staticIPs", `a job may not choose its addresses: omit "ips"`, a.StaticIPs, func(r Rules) *bool {
			if r.StaticIPs == nil {
				return nil
			}
			return &r.StaticIPs.Allowed
		}},
		{"staticMAC", `a job may not choose its MAC: omit "mac" and "infiniband-guid"`, a.StaticMAC, func(r Rules) *bool { return r.StaticMAC }},
		{"mtu", `a job may not choose its MTU: omit "mtu"`, a.MTU, func(r Rules) *bool { return r.MTU }},
	} {
		if allowed, file := first(a.Rules, host, rule.of); rule.chosen && allowed != nil && !*allowed {
			return a.denied(rule.key, file, rule.reason)
		}
	}
	return nil
}

// checkHostPorts denies the ports that no rule allows: a mapped port takes the
// traffic of any program that listens on it.
func (a Attachment) checkHostPorts(host Source) error {
	allowed, file := a.Rules.HostPorts, a.Rules.File
	if allowed == nil && host.HostPorts != nil {
		allowed, file = host.HostPorts, host.File
	}
	for _, ports := range a.HostPorts {
		if slices.ContainsFunc(allowed, func(r PortRange) bool { return r.contains(ports) }) {
			continue
		}
		return a.denied("hostPorts", file, fmt.Sprintf("a job may not choose host port %s, where the rule allows %s: let the scheduler assign a port, and name it in \"ports\"", ports, listOf(allowed)))
	}
	return nil
}

// first returns a key of the network's rules, else of the host's, and the file that
// has it.
func first[T any](network, host Source, of func(Rules) *T) (*T, string) {
	if value := of(network.Rules); value != nil {
		return value, network.File
	}
	return of(host.Rules), host.File
}

// decide returns the reason why patterns deny a value, and their file; an empty
// reason allows it.
func decide(field, value string, of func(Rules) []string, network, host Source) (file, reason string) {
	for _, s := range []Source{network, host} {
		for _, pattern := range of(s.Rules) {
			if denied, ok := strings.CutPrefix(pattern, "!"); ok && (value == "" || matches(denied, value)) {
				return s.File, denial(field, value, pattern)
			}
		}
	}
	for _, s := range []Source{network, host} {
		allowed, limited := allows(of(s.Rules))
		if !limited {
			continue
		}
		if value != "" && slices.ContainsFunc(allowed, func(pattern string) bool { return matches(pattern, value) }) {
			return "", ""
		}
		return s.File, denial(field, value, list(allowed))
	}
	return "", ""
}

// allows returns the patterns that allow. A list that is missing, or only denies,
// does not limit.
func allows(patterns []string) (allowed []string, limited bool) {
	for _, pattern := range patterns {
		if !strings.HasPrefix(pattern, "!") {
			allowed = append(allowed, pattern)
		}
	}
	return allowed, patterns != nil && (len(allowed) > 0 || len(patterns) == 0)
}

func denial(field, value, patterns string) string {
	if value == "" {
		return fmt.Sprintf("the %s is unknown, and the rule is %s", field, patterns)
	}
	return fmt.Sprintf("%s %q, where the rule is %s", field, value, patterns)
}

// matches tells whether the value matches the pattern, in which "*" is any text.
func matches(pattern, value string) bool {
	form := strings.ReplaceAll(regexp.QuoteMeta(pattern), `\*`, ".*")
	return regexp.MustCompile("(?s)^" + form + "$").MatchString(value)
}
