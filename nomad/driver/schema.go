// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package driver

import (
	"reflect"

	"github.com/allocnet/allocnet/nomad/driver/proto"
)

// schemaOf is the schema by which Nomad reads the block that is then decoded into a struct. All of it is optional.
func schemaOf(block reflect.Type) *proto.Spec {
	attributes := map[string]*proto.Spec{}
	for f := range block.Fields() {
		name := f.Tag.Get("codec")
		attributes[name] = specOf(name, f.Type)
	}
	return &proto.Spec{Block: &proto.Spec_Object{Object: &proto.Object{Attributes: attributes}}}
}

// specOf is that of a key: a pointer is a block, and a map has the blocks of the key, each with another name.
func specOf(name string, value reflect.Type) *proto.Spec {
	switch value.Kind() {
	case reflect.Pointer:
		return &proto.Spec{Block: &proto.Spec_BlockValue{BlockValue: &proto.Block{Name: name, Nested: schemaOf(value.Elem())}}}
	case reflect.Map:
		return &proto.Spec{Block: &proto.Spec_BlockMap{BlockMap: &proto.BlockMap{Name: name, Labels: []string{"name"}, Nested: schemaOf(value.Elem())}}}
	}
	return &proto.Spec{Block: &proto.Spec_Attr{Attr: &proto.Attr{Name: name, Type: hclTypes[value]}}}
}

var hclTypes = map[reflect.Type]string{
	reflect.TypeFor[bool](): "bool", reflect.TypeFor[int](): "number", reflect.TypeFor[uint64](): "number", reflect.TypeFor[string](): "string",
	reflect.TypeFor[[]string](): "list(string)", reflect.TypeFor[[]map[string]string](): "list(map(string))",
}
