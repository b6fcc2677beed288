// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package driver

import "github.com/allocnet/allocnet/nomad/driver/proto"

// object is a block's body, by its keys.
func object(attributes map[string]*proto.Spec) *proto.Spec {
	return &proto.Spec{Object: &proto.Object{Attributes: attributes}}
}

// attr is an optional attribute of a type of HCL.
func attr(name, kind string) *proto.Spec {
	return &proto.Spec{Attr: &proto.Attr{Name: name, Type: kind}}
}

// block is an optional block.
func block(name string, body *proto.Spec) *proto.Spec {
	return &proto.Spec{BlockValue: &proto.Block{Name: name, Nested: body}}
}

// blockMap are the blocks of a name, each with its own labels.
func blockMap(name string, labels []string, body *proto.Spec) *proto.Spec {
	return &proto.Spec{BlockMap: &proto.BlockMap{Name: name, Labels: labels, Nested: body}}
}
