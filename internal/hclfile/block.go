// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package hclfile

import (
	"fmt"
	"reflect"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"
)

// Block returns the only block of a type that a body has, and nil if it has none. What else
// the body has is not looked at.
func (v *Values) Block(body hcl.Body, name string) hcl.Body {
	content, _, faults := body.PartialContent(&hcl.BodySchema{Blocks: []hcl.BlockHeaderSchema{{Type: name}}})
	v.Add(faults)
	if len(content.Blocks) == 0 {
		return nil
	}
	if len(content.Blocks) > 1 {
		v.Add(hcl.Diagnostics{{
			Severity: hcl.DiagError, Summary: fmt.Sprintf("Duplicate %s block", name), Subject: &content.Blocks[1].DefRange,
			Detail: fmt.Sprintf("Only one %s block is allowed. Another was defined at %s.", name, content.Blocks[0].DefRange),
		}})
	}
	return content.Blocks[0].Body
}

// Decode sets the fields of a struct from a block. They are strings, booleans and expressions
// with the tags of gohcl, and all optional. It is for programs that are executed for each
// attachment: the start of gohcl, which links what writes HCL and compares values, takes a
// tenth of theirs.
func (v *Values) Decode(block hcl.Body, into any) {
	fields := reflect.ValueOf(into).Elem()
	schema := &hcl.BodySchema{}
	for i := range fields.NumField() {
		schema.Attributes = append(schema.Attributes, hcl.AttributeSchema{Name: tagged(fields.Type().Field(i))})
	}
	content, faults := block.Content(schema)
	v.Add(faults)
	for i := range fields.NumField() {
		expression := hcl.StaticExpr(cty.NullVal(cty.DynamicPseudoType), block.MissingItemRange())
		if attribute, ok := content.Attributes[tagged(fields.Type().Field(i))]; ok {
			expression = attribute.Expr
		}
		switch field := fields.Field(i).Addr().Interface().(type) {
		case *hcl.Expression:
			*field = expression
		case *string:
			*field, _ = Read[string](v, expression)
		case *bool:
			*field, _ = Read[bool](v, expression)
		default:
			panic(fmt.Sprintf("%T: field %s: want a string, a boolean or an expression", into, fields.Type().Field(i).Name))
		}
	}
}

// tagged is the name of a field in HCL.
func tagged(field reflect.StructField) string {
	name, _, _ := strings.Cut(field.Tag.Get("hcl"), ",")
	return name
}
