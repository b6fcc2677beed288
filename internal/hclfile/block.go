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
	if block := v.only(content.Blocks, name); block != nil {
		return block.Body
	}
	return nil
}

// only returns the only block of a type, and nil if there is none.
func (v *Values) only(blocks hcl.Blocks, name string) *hcl.Block {
	blocks = blocks.OfType(name)
	if len(blocks) == 0 {
		return nil
	}
	if len(blocks) > 1 {
		v.Add(hcl.Diagnostics{{
			Severity: hcl.DiagError, Summary: fmt.Sprintf("Duplicate %s block", name), Subject: &blocks[1].DefRange,
			Detail: fmt.Sprintf("Only one %s block is allowed. Another was defined at %s.", name, blocks[0].DefRange),
		}})
	}
	return blocks[0]
}

// Labelled returns the blocks of a body, which has nothing else, in their order. Each has one label, its name.
func (v *Values) Labelled(body hcl.Body, types ...string) hcl.Blocks {
	schema := &hcl.BodySchema{}
	for _, name := range types {
		schema.Blocks = append(schema.Blocks, hcl.BlockHeaderSchema{Type: name, LabelNames: []string{"name"}})
	}
	content, faults := body.Content(schema)
	v.Add(faults)
	return content.Blocks
}

// Decode sets the fields of a struct from a body, which has nothing else. They have the tags of gohcl, and are all
// optional: strings, lists of them, booleans, expressions, and pointers to structs for blocks. It is here because gohcl
// links what writes HCL and compares values: a tenth of the start of programs that are executed for each attachment.
func (v *Values) Decode(body hcl.Body, into any) {
	fields := reflect.ValueOf(into).Elem()
	content, faults := body.Content(schema(fields.Type()))
	v.Add(faults)
	for i := range fields.NumField() {
		switch name, kind := tagged(fields.Type().Field(i)); kind {
		case "block":
			v.decodeBlock(v.only(content.Blocks, name), fields.Field(i))
		case "optional":
			expression := hcl.StaticExpr(cty.NullVal(cty.DynamicPseudoType), body.MissingItemRange())
			if attribute, ok := content.Attributes[name]; ok {
				expression = attribute.Expr
			}
			v.decodeAttribute(expression, fields.Field(i).Addr().Interface())
		}
	}
}

func schema(fields reflect.Type) *hcl.BodySchema {
	s := &hcl.BodySchema{}
	for i := range fields.NumField() {
		switch name, kind := tagged(fields.Field(i)); kind {
		case "block":
			s.Blocks = append(s.Blocks, hcl.BlockHeaderSchema{Type: name})
		case "optional":
			s.Attributes = append(s.Attributes, hcl.AttributeSchema{Name: name})
		}
	}
	return s
}

// decodeBlock makes the struct of a block, if there is one. The field with the tag def_range gets where it begins.
func (v *Values) decodeBlock(block *hcl.Block, pointer reflect.Value) {
	if block == nil {
		return
	}
	pointer.Set(reflect.New(pointer.Type().Elem()))
	fields := pointer.Elem()
	for i := range fields.NumField() {
		if _, kind := tagged(fields.Type().Field(i)); kind == "def_range" {
			fields.Field(i).Set(reflect.ValueOf(block.DefRange))
		}
	}
	v.Decode(block.Body, pointer.Interface())
}

func (v *Values) decodeAttribute(e hcl.Expression, into any) {
	switch into := into.(type) {
	case *hcl.Expression:
		*into = e
	case *string:
		*into, _ = Read[string](v, e)
	case *[]string:
		*into, _ = Read[[]string](v, e)
	case *bool:
		*into, _ = Read[bool](v, e)
	default:
		panic(fmt.Sprintf("%T: want strings, a boolean or an expression", into))
	}
}

// tagged is the name of a field in HCL, and what it is.
func tagged(field reflect.StructField) (name, kind string) {
	name, kind, _ = strings.Cut(field.Tag.Get("hcl"), ",")
	return name, kind
}
