// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Command protogen generates the Go code of protobuf files, with the generator that
// this module pins. It has to run in its own directory.
//
// Usage: go run -C tools/protogen . ROOT OUT FILE...
//
// The files are relative to ROOT, and so are their imports. Each generated file has the
// path of its source, in OUT. What the generator calls deprecated is left out, and so are the
// getters of messages that a plugin only sends.
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/bufbuild/protocompile"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/pluginpb"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "protogen:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) < 3 {
		return fmt.Errorf("got %d arguments: want ROOT OUT FILE...", len(args))
	}
	request, err := compile(args[0], args[2:])
	if err != nil {
		return err
	}
	if err := generate(request, args[1]); err != nil {
		return fmt.Errorf("%s: %w", generator, err)
	}
	return nil
}

// compile returns what the generator is asked for: the files, after what they import.
func compile(root string, files []string) (*pluginpb.CodeGeneratorRequest, error) {
	compiler := protocompile.Compiler{
		Resolver:       protocompile.WithStandardImports(&protocompile.SourceResolver{ImportPaths: []string{root}}),
		SourceInfoMode: protocompile.SourceInfoStandard, // comments
	}
	compiled, err := compiler.Compile(context.Background(), files...)
	if err != nil {
		return nil, err
	}
	request := &pluginpb.CodeGeneratorRequest{FileToGenerate: files, Parameter: proto.String("paths=source_relative")}
	seen := map[string]bool{}
	for _, file := range compiled {
		request.ProtoFile = appendFile(request.ProtoFile, seen, file)
	}
	return request, nil
}

// appendFile appends a file that was not seen, after what it imports.
func appendFile(all []*descriptorpb.FileDescriptorProto, seen map[string]bool, file protoreflect.FileDescriptor) []*descriptorpb.FileDescriptorProto {
	if seen[file.Path()] {
		return all
	}
	seen[file.Path()] = true
	for i := range file.Imports().Len() {
		all = appendFile(all, seen, file.Imports().Get(i).FileDescriptor)
	}
	return append(all, protodesc.ToFileDescriptorProto(file))
}

// generator is the program that generates.
const generator = "protoc-gen-go"

// generate writes what the generator answers.
func generate(request *pluginpb.CodeGeneratorRequest, out string) error {
	data, err := proto.Marshal(request)
	if err != nil {
		return err
	}
	cmd := exec.Command("go", "tool", generator)
	cmd.Stdin, cmd.Stderr = bytes.NewReader(data), os.Stderr
	if data, err = cmd.Output(); err != nil {
		return err
	}
	var response pluginpb.CodeGeneratorResponse
	if err := proto.Unmarshal(data, &response); err != nil {
		return err
	}
	if response.Error != nil {
		return errors.New(response.GetError())
	}
	for _, file := range response.File {
		path := filepath.Join(out, file.GetName())
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		content, err := withoutUnused(file.GetContent(), received(request.ProtoFile))
		if err != nil {
			return fmt.Errorf("%s: %w", file.GetName(), err)
		}
		if err := os.WriteFile(path, content, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// received are the names of the messages that a plugin gets: requests, and what is in them.
func received(files []*descriptorpb.FileDescriptorProto) map[string]bool {
	messages := map[string]*descriptorpb.DescriptorProto{}
	for _, file := range files {
		for _, m := range file.MessageType {
			messages["."+file.GetPackage()+"."+m.GetName()] = m
		}
	}
	names := map[string]bool{}
	var add func(path string)
	add = func(path string) {
		m := messages[path]
		if m == nil || names[m.GetName()] {
			return
		}
		names[m.GetName()] = true
		for _, field := range m.Field {
			add(field.GetTypeName())
		}
	}
	for path := range messages {
		if strings.HasSuffix(path, "Request") {
			add(path)
		}
	}
	return names
}

// withoutUnused leaves out what is generated for programs of before 2020, what it alone uses, and getters of messages that are not received.
func withoutUnused(source string, received map[string]bool) ([]byte, error) {
	source = strings.Replace(source, "\tsync \"sync\"\n", "", 1)
	file, err := parser.ParseFile(token.NewFileSet(), "", source, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	var kept strings.Builder
	begin := file.FileStart
	for _, d := range file.Decls {
		if from, is := unused(d, received); is {
			kept.WriteString(source[begin-file.FileStart : from-file.FileStart])
			begin = d.End()
		}
	}
	kept.WriteString(source[begin-file.FileStart:])
	return format.Source([]byte(kept.String()))
}

// unused tells whether a declaration is, and where it begins.
func unused(d ast.Decl, received map[string]bool) (from token.Pos, is bool) {
	switch d := d.(type) {
	case *ast.FuncDecl:
		if strings.Contains(d.Doc.Text(), "Deprecated: ") {
			return d.Doc.Pos(), true
		}
		if d.Recv != nil && strings.HasPrefix(d.Name.Name, "Get") {
			of, ok := d.Recv.List[0].Type.(*ast.StarExpr)
			return d.Pos(), ok && !received[fmt.Sprint(of.X)]
		}
		return d.Pos(), strings.HasSuffix(d.Name.Name, "_rawDescGZIP")
	case *ast.GenDecl:
		value, ok := d.Specs[0].(*ast.ValueSpec)
		return d.Pos(), ok && strings.HasSuffix(value.Names[0].Name, "_rawDescOnce")
	}
	return d.Pos(), false
}
