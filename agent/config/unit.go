// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package config

import (
	"errors"
	"os"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"
	ctyjson "github.com/zclconf/go-cty/cty/json"

	"github.com/allocnet/allocnet/hook"
	"github.com/allocnet/allocnet/internal/hclfile"
	"github.com/allocnet/allocnet/portmap"
	"github.com/allocnet/allocnet/selection"
	"github.com/allocnet/allocnet/state"
)

type unitFile struct {
	Netns    string         `hcl:"netns,optional"`
	Primary  hcl.Expression `hcl:"primary,optional"`
	Networks hcl.Expression `hcl:"networks,optional"`
	Publish  hcl.Expression `hcl:"publish,optional"`
	DNS      string         `hcl:"dns,optional"`
	Ingress  hcl.Expression `hcl:"ingress,optional"`
	Egress   hcl.Expression `hcl:"egress,optional"`
}

// LoadUnit reads the networks of a unit. The error is an *hclfile.Error unless the file cannot
// be read.
func LoadUnit(path, id string) (hook.Request, error) {
	r := hook.Request{ID: id, Operator: true}
	if err := state.ValidateID(id); err != nil {
		return r, err
	}
	if _, err := os.Stat(path); err != nil {
		return r, &hook.RequestError{Field: "file", Value: path, Reason: err.Error()}
	}
	var f unitFile
	body, err := hclfile.LoadFile(path)
	if err == nil {
		err = decode(body, &f)
	}
	if err != nil {
		return r, err
	}
	return f.request(r)
}

func (f *unitFile) request(r hook.Request) (hook.Request, error) {
	var v values
	r.Netns, r.DNS = f.Netns, f.DNS
	if primary := v.networks(f.Primary); len(primary) == 1 {
		r.Primary = &primary[0]
	} else if len(primary) > 1 {
		v.Fault(f.Primary.Range(), "primary", "want one network; further ones belong to networks")
	}
	r.Networks = v.networks(f.Networks)
	publish, _ := hclfile.Read[[]string](&v.Values, f.Publish)
	for _, text := range publish {
		ports, err := portmap.Parse(text)
		if err != nil {
			v.Fault(f.Publish.Range(), "publish", err.Error())
		}
		r.Ports = append(r.Ports, ports...)
	}
	v.narrow("ingress", f.Ingress, func(text string) error { return r.Narrow(&text, nil) })
	v.narrow("egress", f.Egress, func(text string) error { return r.Narrow(nil, &text) })
	if err := v.Err(); err != nil {
		return r, err
	}
	return r, nil
}

// narrow reads what is left of the traffic, if it is given.
func (v *values) narrow(key string, e hcl.Expression, set func(text string) error) {
	text, given := hclfile.Read[string](&v.Values, e)
	if !given {
		return
	}
	var wrong *hook.RequestError
	if errors.As(set(text), &wrong) {
		v.Fault(e.Range(), key, wrong.Reason)
	}
}

// networks reads a selection: the short form, an element, or a list of either.
func (v *values) networks(e hcl.Expression) []selection.Element {
	value, faults := e.Value(nil)
	v.Add(faults)
	if faults.HasErrors() || value.IsNull() {
		return nil
	}
	elements, err := elementsOf(value)
	if err != nil {
		v.Fault(e.Range(), "networks", err.Error())
	}
	return elements
}

func elementsOf(value cty.Value) ([]selection.Element, error) {
	if value.Type() == cty.String {
		return selection.Parse(value.AsString())
	}
	data, err := ctyjson.Marshal(value, value.Type())
	if err != nil {
		return nil, err
	}
	return selection.Parse(string(data))
}
