// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package doctor

import (
	"cmp"
	"slices"
)

// Severity is how much a finding matters.
type Severity string

// Severities of findings.
const (
	// Error is a fault: something cannot work, or a dead allocation left
	// something behind.
	Error Severity = "error"
	// Warning may matter, depending on the purpose of the host.
	Warning Severity = "warning"
)

// Finding is one problem of the host.
type Finding struct {
	Severity Severity `json:"severity"`
	// Subject is a file, a network, a plugin, an allocation or a kernel setting.
	Subject string `json:"subject"`
	Problem string `json:"problem"`
	// Fix is the command or the edit that solves the problem.
	Fix string `json:"fix"`
}

// Report is the result of an examination.
type Report struct {
	// Findings are sorted by severity, errors first, then by subject.
	Findings []Finding `json:"findings"`
	// Pools are the address pools of the networks that use host-local.
	Pools []Pool `json:"pools"`
}

// Healthy reports whether there are no errors. Warnings are allowed.
func (r *Report) Healthy() bool {
	return !slices.ContainsFunc(r.Findings, func(f Finding) bool { return f.Severity == Error })
}

func (r *Report) addError(subject, problem, fix string) {
	r.Findings = append(r.Findings, Finding{Error, subject, problem, fix})
}

func (r *Report) addWarning(subject, problem, fix string) {
	r.Findings = append(r.Findings, Finding{Warning, subject, problem, fix})
}

func (r *Report) sort() {
	slices.SortStableFunc(r.Findings, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(a.Severity, b.Severity), cmp.Compare(a.Subject, b.Subject))
	})
}
