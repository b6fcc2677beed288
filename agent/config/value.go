// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package config

import (
	"fmt"
	"net"
	"os/user"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/gohcl"
)

// values evaluates expressions and collects their errors. A setting that is not set is
// the zero value.
type values struct{ faults hcl.Diagnostics }

func (v *values) fault(where hcl.Range, subject, reason string) {
	v.faults = append(v.faults, &hcl.Diagnostic{Severity: hcl.DiagError, Summary: "Invalid value", Detail: subject + ": " + reason, Subject: &where})
}

// read evaluates an expression; false if it is not set or has another type.
func read[T any](v *values, e hcl.Expression) (value T, ok bool) {
	evaluated, faults := e.Value(nil)
	if !faults.HasErrors() && evaluated.IsNull() {
		return value, false
	}
	faults = gohcl.DecodeExpression(e, nil, &value)
	v.faults = append(v.faults, faults...)
	return value, !faults.HasErrors()
}

func (v *values) duration(e hcl.Expression) time.Duration {
	text, ok := read[string](v, e)
	if !ok {
		return 0
	}
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 {
		v.fault(e.Range(), strconv.Quote(text), `want a duration of more than 0, as in "90s"`)
	}
	return d
}

func (v *values) count(e hcl.Expression) int64 {
	n, ok := read[int64](v, e)
	if ok && n <= 0 {
		v.fault(e.Range(), strconv.FormatInt(n, 10), "want a number of 1 or more")
	}
	return n
}

func (v *values) oneOf(e hcl.Expression, allowed ...string) string {
	text, ok := read[string](v, e)
	if ok && !slices.Contains(allowed, text) {
		v.fault(e.Range(), strconv.Quote(text), "want "+strings.Join(allowed, ", "))
	}
	return text
}

// name reads the name of a Nomad namespace or region.
func (v *values) name(e hcl.Expression) string {
	text, ok := read[string](v, e)
	if ok && text != "" && !nomadName.MatchString(text) {
		v.fault(e.Range(), strconv.Quote(text), "want letters, digits, - and _, at most 128")
	}
	return text
}

// nomadName is the form of a namespace and of a region.
var nomadName = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,128}$`)

// unset reports the settings that are set.
func (v *values) unset(reason string, expressions ...hcl.Expression) {
	for _, e := range expressions {
		if text, ok := read[string](v, e); ok && text != "" {
			v.fault(e.Range(), strconv.Quote(text), reason)
		}
	}
}

// hostPort reads a TCP address, which the block has to have. An empty host is all
// addresses.
func (v *values) hostPort(e hcl.Expression, block hcl.Range) string {
	text, ok := read[string](v, e)
	where := e.Range()
	if !ok {
		where = block
	}
	_, port, err := net.SplitHostPort(text)
	if _, invalid := strconv.ParseUint(port, 10, 16); err != nil || invalid != nil {
		v.fault(where, "listen "+strconv.Quote(text), `want an address with a port, as in "127.0.0.1:9464"`)
	}
	return text
}

// user reads a name or a number.
func (v *values) user(e hcl.Expression) uint32 {
	return v.id(e, "user", func(name string) (string, error) {
		u, err := user.Lookup(name)
		if err != nil {
			return "", err
		}
		return u.Uid, nil
	})
}

func (v *values) group(e hcl.Expression) uint32 {
	return v.id(e, "group", func(name string) (string, error) {
		g, err := user.LookupGroup(name)
		if err != nil {
			return "", err
		}
		return g.Gid, nil
	})
}

func (v *values) id(e hcl.Expression, kind string, lookup func(string) (string, error)) uint32 {
	name, ok := read[string](v, e)
	if !ok {
		return 0
	}
	text := name
	if found, err := lookup(name); err == nil {
		text = found
	}
	n, err := strconv.ParseUint(text, 10, 32)
	if err != nil {
		v.fault(e.Range(), strconv.Quote(name), fmt.Sprintf("want the name or number of a %s of this host", kind))
	}
	return uint32(n)
}
