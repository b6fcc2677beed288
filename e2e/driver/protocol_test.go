// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package driver

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
	protobuf "google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/allocnet/allocnet/internal/sandbox/nomadagent"
	"github.com/allocnet/allocnet/nomad/driver/drivertest"
	"github.com/allocnet/allocnet/nomad/driver/proto"
)

// TestProtocol: each method of the driver, and each message, field and value of package proto is one of
// the agent's, with the same numbers and types. The agent's program has its definitions.
func TestProtocol(t *testing.T) {
	theirs := programDeclarations(t, nomadagent.Binary(), "plugins/base/proto/base.proto", "plugins/drivers/proto/driver.proto",
		"plugins/shared/hclspec/hcl_spec.proto", "plugins/shared/structs/proto/attribute.proto", "plugins/shared/structs/proto/recoverable_error.proto")
	ours := append(ownMessages(), ownValues(t)...)
	if len(ours) < 100 || len(theirs) < len(ours) {
		t.Errorf("%d declarations, and the agent has %d", len(ours), len(theirs))
	}
	for _, d := range ours {
		if !slices.Contains(theirs, d) {
			t.Errorf("the agent does not have: %s", d)
		}
	}
	for _, m := range drivertest.Methods {
		if !slices.ContainsFunc(theirs, declarationOf(m).MatchString) {
			t.Errorf("the agent does not have the method %+v", m)
		}
	}
	// What is read from a program is all that it has.
	duration := protodesc.ToFileDescriptorProto(durationpb.File_google_protobuf_duration_proto)
	if read := programDeclarations(t, allocnet, duration.GetName()); !slices.Equal(read, declarations(duration)) {
		t.Errorf("read from allocnet are %q, want %q", read, declarations(duration))
	}
}

// declarationOf matches the declaration of a method. Of a message that is empty here, the agent may have fields.
func declarationOf(m drivertest.Method) *regexp.Regexp {
	message := func(of reflect.Type) string {
		if of == reflect.TypeFor[*emptypb.Empty]() {
			return `\S+`
		}
		service, _, _ := strings.Cut(m.Path[1:], "/")
		return `\.` + regexp.QuoteMeta(service[:strings.LastIndex(service, ".")+1]+of.Elem().Name())
	}
	return regexp.MustCompile(fmt.Sprintf(`^method \.%s: %s \(stream: %t\) returns %s \(stream: %t\)$`,
		regexp.QuoteMeta(m.Path[1:]), message(m.Request), m.ClientStreams, message(m.Answer), m.ServerStreams))
}

// ownMessages returns what the messages of all methods, and of errors, declare.
func ownMessages() []string {
	types := []reflect.Type{reflect.TypeFor[*proto.RecoverableError]()}
	for _, m := range drivertest.Methods {
		types = append(types, m.Request, m.Answer)
	}
	var all []string
	seen := map[protoreflect.FullName]bool{}
	var add func(protoreflect.MessageDescriptor)
	add = func(m protoreflect.MessageDescriptor) {
		if seen[m.FullName()] || strings.HasPrefix(string(m.FullName()), "google.protobuf.") {
			return
		}
		seen[m.FullName()] = true
		if !m.IsMapEntry() { // which is nested
			all = append(all, messageDeclarations("", protodesc.ToDescriptorProto(m))...)
		}
		for i := range m.Fields().Len() {
			if of := m.Fields().Get(i).Message(); of != nil {
				add(of)
			}
		}
	}
	for _, of := range types {
		add(protoadapt.MessageV2Of(reflect.New(of.Elem()).Interface().(protoadapt.MessageV1)).ProtoReflect().Descriptor())
	}
	return all
}

// ownValues returns the values of enumerations: Message_VALUE of the type Message_Enumeration, and Enumeration_VALUE.
func ownValues(t *testing.T) []string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "../../nomad/driver/proto/message.go", nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, d := range file.Decls {
		constants, ok := d.(*ast.GenDecl)
		if !ok || constants.Tok != token.CONST {
			continue
		}
		for _, c := range constants.Specs {
			value := c.(*ast.ValueSpec)
			of := fmt.Sprint(value.Type)
			prefix := of
			if message, _, nested := strings.Cut(of, "_"); nested {
				prefix = message
			}
			all = append(all, fmt.Sprintf("value %s.%s = %s", of, strings.TrimPrefix(value.Names[0].Name, prefix+"_"), value.Values[0].(*ast.BasicLit).Value))
		}
	}
	return all
}

// programDeclarations returns what the definitions of a program declare in the files.
func programDeclarations(t *testing.T, program string, paths ...string) []string {
	t.Helper()
	data, err := os.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	compressed := compressedDefinitions(data)
	var all []string
	for _, path := range paths {
		file := compressed[path]
		if file == nil {
			file = plainDefinition(data, path)
		}
		if file == nil {
			t.Fatalf("%s has no definitions of %s", program, path)
		}
		all = append(all, declarations(file)...)
	}
	return all
}

// compressedDefinitions returns the definitions that are in a program as protoc-gen-go
// before 1.20 puts them: one gzip stream for each file.
func compressedDefinitions(program []byte) map[string]*descriptorpb.FileDescriptorProto {
	files := map[string]*descriptorpb.FileDescriptorProto{}
	begin := []byte("\x1f\x8b\x08\x00\x00\x00\x00\x00\x02\xff")
	for rest := program; ; rest = rest[len(begin):] {
		at := bytes.Index(rest, begin)
		if at < 0 {
			return files
		}
		rest = rest[at:]
		stream, err := gzip.NewReader(bytes.NewReader(rest))
		if err != nil {
			continue
		}
		stream.Multistream(false)
		file := &descriptorpb.FileDescriptorProto{}
		if data, err := io.ReadAll(stream); err == nil && protobuf.Unmarshal(data, file) == nil {
			files[file.GetName()] = file
		}
	}
}

// plainDefinition returns the definition of a file that is in a program as later
// protoc-gen-go puts it, nil if it is not. The syntax is its last field.
func plainDefinition(program []byte, path string) *descriptorpb.FileDescriptorProto {
	at := bytes.Index(program, protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), path))
	if at < 0 {
		return nil
	}
	end := at
	for {
		number, _, length := protowire.ConsumeField(program[end:])
		if length < 0 {
			return nil
		}
		end += length
		if number == 12 {
			break
		}
	}
	file := &descriptorpb.FileDescriptorProto{}
	if protobuf.Unmarshal(program[at:end], file) != nil {
		return nil
	}
	return file
}

// declarations returns what a file declares, each as a line with all that is on the wire. Of messages and values the names are those of
// package proto: a package of protobuf is none of Go.
func declarations(file *descriptorpb.FileDescriptorProto) []string {
	scope := "." + file.GetPackage()
	all := enumDeclarations("", file.GetEnumType())
	for _, m := range file.GetMessageType() {
		all = append(all, messageDeclarations("", m)...)
	}
	for _, s := range file.GetService() {
		for _, m := range s.GetMethod() {
			all = append(all, fmt.Sprintf("method %s.%s/%s: %s (stream: %t) returns %s (stream: %t)", scope, s.GetName(), m.GetName(),
				m.GetInputType(), m.GetClientStreaming(), m.GetOutputType(), m.GetServerStreaming()))
		}
	}
	return all
}

func messageDeclarations(scope string, m *descriptorpb.DescriptorProto) []string {
	name := scope + m.GetName()
	all := append([]string{"message " + name}, enumDeclarations(name+"_", m.GetEnumType())...)
	for _, f := range m.GetField() {
		all = append(all, fmt.Sprintf("field %s.%s = %d: %s %s %s", name, strings.ToLower(f.GetName()), f.GetNumber(), f.GetLabel(), f.GetType(), typeName(f)))
	}
	for _, nested := range m.GetNestedType() {
		all = append(all, messageDeclarations(name+"_", nested)...)
	}
	return all
}

var ownPackage = regexp.MustCompile(`^\.(hashicorp\.nomad\.plugins\.(base\.proto|drivers\.proto|shared\.hclspec|shared\.structs)|github_com\.allocnet\.allocnet\.nomad\.driver\.proto)\.`)

func typeName(f *descriptorpb.FieldDescriptorProto) string {
	name := f.GetTypeName()
	if prefix := ownPackage.FindString(name); prefix != "" {
		return strings.ReplaceAll(name[len(prefix):], ".", "_")
	}
	return name
}

func enumDeclarations(scope string, enums []*descriptorpb.EnumDescriptorProto) []string {
	var all []string
	for _, e := range enums {
		for _, v := range e.GetValue() {
			all = append(all, fmt.Sprintf("value %s%s.%s = %d", scope, e.GetName(), v.GetName(), v.GetNumber()))
		}
	}
	return all
}
