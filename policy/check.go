// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package policy

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/allocnet/allocnet/internal/errdefs"
	"github.com/allocnet/allocnet/state"
)

// Identity is what the orchestrator itself says of an allocation.
type Identity = state.Identity

// Attachment is what an allocation asks of one network.
type Attachment struct {
	Network   string
	Interface string
	// Rules are the network's own.
	Rules Source
	// Standing is how often the allocation is attached to the network already.
	Standing int
	// StaticIPs and StaticMAC are whether the job chooses them.
	StaticIPs, StaticMAC bool
	// MTU is whether the job chooses it.
	MTU bool
	// HostPorts are the ports of the host that the job chooses.
	HostPorts []int
}

// DeniedError is an attachment that a rule denies.
type DeniedError struct {
	Network   string
	Interface string
	// Rule is the key that denies, and File where it stands.
	Rule, File string
	// Reason says what is denied, and to whom.
	Reason string
}

func (e *DeniedError) Error() string {
	return fmt.Sprintf("network %q as %s is denied: %s (rule %q in %s)", e.Network, e.Interface, e.Reason, e.Rule, e.File)
}

// Kind is that of package errdefs.
func (*DeniedError) Kind() errdefs.Kind { return errdefs.Refused }

// Check holds attachments of one allocation to the rules of their networks and
// of the host. The error is the *DeniedError of the first that is denied.
func Check(who Identity, host Source, attachments []Attachment) error {
	count := map[string]int{}
	for _, a := range attachments {
		count[a.Network]++
		if err := a.check(who, host, a.Standing+count[a.Network]); err != nil {
			return err
		}
	}
	return nil
}

func (a Attachment) check(who Identity, host Source, count int) error {
	for _, rule := range []struct {
		key, what, value string
		of               func(Rules) []string
	}{
		{"namespaces", "namespace", who.Namespace, func(r Rules) []string { return r.Namespaces }},
		{"jobs", "job", who.Job, func(r Rules) []string { return r.Jobs }},
	} {
		if file, reason := decide(rule.what, rule.value, rule.of, a.Rules, host); reason != "" {
			return &DeniedError{a.Network, a.Interface, rule.key, file, reason}
		}
	}
	if limit, file := first(a.Rules, host, func(r Rules) *int { return r.MaxAttachments }); limit != nil && count > *limit {
		return &DeniedError{a.Network, a.Interface, "maxAttachments", file, fmt.Sprintf("an allocation may attach to it %d times", *limit)}
	}
	allowed, file := first(a.Rules, host, func(r Rules) *bool { return r.StaticIPs })
	if a.StaticIPs && allowed != nil && !*allowed {
		return &DeniedError{a.Network, a.Interface, "staticIPs", file, "a job may not choose its addresses: leave \"ips\" out"}
	}
	allowed, file = first(a.Rules, host, func(r Rules) *bool { return r.StaticMAC })
	if a.StaticMAC && allowed != nil && !*allowed {
		return &DeniedError{a.Network, a.Interface, "staticMAC", file, "a job may not choose its MAC: leave \"mac\" and \"infiniband-guid\" out"}
	}
	allowed, file = first(a.Rules, host, func(r Rules) *bool { return r.MTU })
	if a.MTU && allowed != nil && !*allowed {
		return &DeniedError{a.Network, a.Interface, "mtu", file, "a job may not choose its MTU: leave \"mtu\" out"}
	}
	return a.checkHostPorts(host)
}

// checkHostPorts denies the ports that no rule allows: a mapped port takes the
// traffic of whatever on the host has it.
func (a Attachment) checkHostPorts(host Source) error {
	allowed, file := a.Rules.HostPorts, a.Rules.File
	if allowed == nil && host.HostPorts != nil {
		allowed, file = host.HostPorts, host.File
	}
	for _, port := range a.HostPorts {
		if slices.ContainsFunc(allowed, func(r PortRange) bool { return r.contains(port) }) {
			continue
		}
		return &DeniedError{a.Network, a.Interface, "hostPorts", file, fmt.Sprintf("a job may not choose host port %d, where the rule allows %s: let the scheduler assign a port, and name it in \"ports\"", port, listRanges(allowed))}
	}
	return nil
}

// first returns a key of the network's rules, or else of the host's, and the
// file that it stands in.
func first[T any](network, host Source, of func(Rules) *T) (*T, string) {
	if value := of(network.Rules); value != nil {
		return value, network.File
	}
	return of(host.Rules), host.File
}

// decide returns why patterns deny a value, and in which file; an empty reason
// allows it.
func decide(what, value string, of func(Rules) []string, network, host Source) (file, reason string) {
	for _, s := range []Source{network, host} {
		for _, pattern := range of(s.Rules) {
			if denied, ok := strings.CutPrefix(pattern, "!"); ok && (value == "" || matches(denied, value)) {
				return s.File, refusal(what, value, pattern)
			}
		}
	}
	for _, s := range []Source{network, host} {
		allowed, limited := allows(of(s.Rules))
		if !limited {
			continue
		}
		for _, pattern := range allowed {
			if value != "" && matches(pattern, value) {
				return "", ""
			}
		}
		return s.File, refusal(what, value, list(allowed))
	}
	return "", ""
}

// allows returns the patterns that allow. The list limits nobody when it is
// missing, or only denies.
func allows(patterns []string) (allowed []string, limited bool) {
	for _, pattern := range patterns {
		if !strings.HasPrefix(pattern, "!") {
			allowed = append(allowed, pattern)
		}
	}
	return allowed, patterns != nil && (len(allowed) > 0 || len(patterns) == 0)
}

func refusal(what, value, patterns string) string {
	if value == "" {
		return fmt.Sprintf("the %s is unknown, and the rule names %s", what, patterns)
	}
	return fmt.Sprintf("%s %q, where the rule says %s", what, value, patterns)
}

// matches tells whether a pattern, in which "*" stands for any text, is the
// value's.
func matches(pattern, value string) bool {
	form := strings.ReplaceAll(regexp.QuoteMeta(pattern), `\*`, ".*")
	return regexp.MustCompile("(?s)^" + form + "$").MatchString(value)
}
