// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package hclfile

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty/convert"
	"github.com/zclconf/go-cty/cty/gocty"
)

// Values evaluates expressions and collects their errors. A setting that is not set is
// the zero value.
type Values struct{ faults hcl.Diagnostics }

// Err returns an *Error with what was collected; nil if it is nothing.
func (v *Values) Err() error {
	if len(v.faults) == 0 {
		return nil
	}
	return &Error{v.faults}
}

// Add adds the errors of an evaluation.
func (v *Values) Add(faults hcl.Diagnostics) { v.faults = append(v.faults, faults...) }

// Fault adds an error of a value.
func (v *Values) Fault(where hcl.Range, subject, reason string) {
	v.faults = append(v.faults, &hcl.Diagnostic{Severity: hcl.DiagError, Summary: "Invalid value", Detail: subject + ": " + reason, Subject: &where})
}

// Read evaluates an expression; false if it is not set or has another type.
func Read[T any](v *Values, e hcl.Expression) (value T, ok bool) {
	evaluated, faults := e.Value(nil)
	if !faults.HasErrors() && evaluated.IsNull() {
		return value, false
	}
	wanted, err := gocty.ImpliedType(&value)
	if err == nil {
		evaluated, err = convert.Convert(evaluated, wanted)
	}
	if err == nil {
		err = gocty.FromCtyValue(evaluated, &value)
	}
	if err != nil {
		where, context := e.StartRange(), e.Range()
		faults = append(faults, &hcl.Diagnostic{
			Severity: hcl.DiagError, Summary: "Unsuitable value type", Detail: "Unsuitable value: " + err.Error(), Subject: &where, Context: &context,
		})
	}
	v.Add(faults)
	return value, !faults.HasErrors()
}

// Duration reads a time of more than 0, as in "90s".
func (v *Values) Duration(e hcl.Expression) time.Duration {
	text, ok := Read[string](v, e)
	if !ok {
		return 0
	}
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 {
		v.Fault(e.Range(), strconv.Quote(text), `want a duration of more than 0, as in "90s"`)
	}
	return d
}

// Count reads a number of 1 or more.
func (v *Values) Count(e hcl.Expression) int64 {
	n, ok := Read[int64](v, e)
	if ok && n <= 0 {
		v.Fault(e.Range(), strconv.FormatInt(n, 10), "want a number of 1 or more")
	}
	return n
}

// OneOf reads one of the allowed values.
func (v *Values) OneOf(e hcl.Expression, allowed ...string) string {
	text, ok := Read[string](v, e)
	if ok && !slices.Contains(allowed, text) {
		v.Fault(e.Range(), strconv.Quote(text), "want "+strings.Join(allowed, ", "))
	}
	return text
}

// Name reads the name of a Nomad namespace or region.
func (v *Values) Name(e hcl.Expression) string {
	text, ok := Read[string](v, e)
	if ok && text != "" && (len(text) > 128 || strings.ContainsFunc(text, notInName)) {
		v.Fault(e.Range(), strconv.Quote(text), "want letters, digits, - and _, at most 128")
	}
	return text
}

// notInName is whether no name of a namespace or of a region has the character.
func notInName(r rune) bool {
	return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '-' && r != '_'
}

// Unset reports the settings that are set.
func (v *Values) Unset(reason string, expressions ...hcl.Expression) {
	for _, e := range expressions {
		if text, ok := Read[string](v, e); ok && text != "" {
			v.Fault(e.Range(), strconv.Quote(text), reason)
		}
	}
}
