// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package conventions

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"maps"
	"path"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const moduleRoot = "github.com/allocnet/allocnet/"

// foreignKeys are the keys that other projects define, by the type that has them.
var foreignKeys = map[string][]string{
	// Multus' selection elements.
	"allocation.Element": {"default-route", "cni-args", "infiniband-guid"},
	// The CNI specification's GC.
	"cniplugin.conf": {"cni.dev/valid-attachments"},
	// The plugin vlan's.
	"cniconf.Plugin": {"vlanId"}, "cniconf.draftPlugin": {"vlanId"},
	// libcni's cache.
	"cleanup.cached":            {"containerId"},
	"hook/internal/cache.entry": {"containerId"},
}

// hashedOnly are types whose JSON nothing reads: its hash is recorded.
var hashedOnly = []string{"hook/internal/plan.Request"}

// standardTypes are those of the standard library, and of CNI, that the module's JSON
// has: they encode themselves, or have CNI's keys.
var standardTypes = []string{"encoding/json.RawMessage", "time.Time", "net/netip.Addr", "net/netip.Prefix", "math/big.Int",
	"github.com/containernetworking/cni/pkg/types.GCAttachment", "github.com/containernetworking/cni/pkg/types.PluginConf",
	"github.com/containernetworking/cni/pkg/types.Route", "github.com/containernetworking/cni/pkg/types.DNS"}

// lowerCamel has no "Id" and no "Ip": an initialism has one case.
var lowerCamel = regexp.MustCompile(`^[a-z][a-zA-Z0-9]*$`)

var mixedInitialism = regexp.MustCompile(`(Id|Ip|Mac|Mtu|Dns)([A-Z]|$)`)

// jsonType is a struct type of the module, with the imports of its file.
type jsonType struct {
	dir     string
	fields  []*ast.Field
	imports map[string]string
}

// jsonSource are the struct types of the module's packages, by "folder.Name".
type jsonSource map[string]*jsonType

// ownEncoding are the methods of types that encode or decode themselves.
var ownEncoding = regexp.MustCompile(`^(Unm|M)arshal(JSON|Text)$`)

// add reads the types of a file.
func (s jsonSource) add(t *testing.T, name string, data []byte) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), name, data, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	imports := map[string]string{}
	for _, i := range file.Imports {
		imported, _ := strconv.Unquote(i.Path.Value)
		as := strings.TrimPrefix(path.Base(imported), "go-")
		if i.Name != nil {
			as = i.Name.Name
		}
		imports[as] = imported
	}
	in := filepath.Dir(name) + "."
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			if n.Recv != nil && ownEncoding.MatchString(n.Name.Name) {
				s[in+strings.TrimPrefix(types.ExprString(n.Recv.List[0].Type), "*")] = nil
			}
		case *ast.TypeSpec:
			key := in + n.Name.Name
			_, encodesItself := s[key]
			if fields, ok := n.Type.(*ast.StructType); ok && !encodesItself {
				s[key] = &jsonType{filepath.Dir(name), fields.Fields.List, imports}
			}
		}
		return true
	})
}

// faults returns what is wrong with the types that have JSON keys, and with those that
// their fields have.
func (s jsonSource) faults() []string {
	found := map[string]bool{}
	done := map[string]bool{}
	for _, key := range slices.Sorted(maps.Keys(s)) {
		if s[key] != nil && slices.ContainsFunc(s[key].fields, func(f *ast.Field) bool { return keyOf(f) != "" }) {
			s.check(key, found, done)
		}
	}
	return slices.Sorted(maps.Keys(found))
}

func (s jsonSource) check(key string, found, done map[string]bool) {
	if done[key] || s[key] == nil || slices.Contains(hashedOnly, key) {
		return
	}
	done[key] = true
	for _, field := range s[key].fields {
		name := keyOf(field)
		if name == "-" || len(field.Names) > 0 && !field.Names[0].IsExported() {
			continue
		}
		switch {
		case len(field.Names) > 0 && name == "":
			found[fmt.Sprintf("%s: field %s has no key", key, field.Names[0].Name)] = true
		case name != "" && !slices.Contains(foreignKeys[key], name) && (!lowerCamel.MatchString(name) || mixedInitialism.MatchString(name)):
			found[fmt.Sprintf("%s: key %q is not lower camel case", key, name)] = true
		}
		s.checkUse(key, field.Type, found, done)
	}
}

// checkUse follows the named types of a field's type.
func (s jsonSource) checkUse(key string, use ast.Expr, found, done map[string]bool) {
	ast.Inspect(use, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.StructType:
			s[key+".inner"] = &jsonType{s[key].dir, n.Fields.List, s[key].imports}
			delete(done, key+".inner")
			s.check(key+".inner", found, done)
			return false
		case *ast.SelectorExpr:
			name := s[key].imports[n.X.(*ast.Ident).Name] + "." + n.Sel.Name
			if own, ok := strings.CutPrefix(name, moduleRoot); ok {
				s.check(own, found, done)
			} else if !slices.Contains(standardTypes, name) {
				found[fmt.Sprintf("%s: has a %s", key, name)] = true
			}
			return false
		case *ast.Ident:
			s.check(s[key].dir+"."+n.Name, found, done)
		}
		return true
	})
}

// keyOf returns the JSON key of a field's tag.
func keyOf(f *ast.Field) string {
	if f.Tag == nil {
		return ""
	}
	tag, err := strconv.Unquote(f.Tag.Value)
	if err != nil {
		return ""
	}
	name, _, _ := strings.Cut(reflect.StructTag(tag).Get("json"), ",")
	return name
}

// TestJSON: keys are in lower camel case, and every type is the module's own, so that a
// dependency does not decide what users read. Sandboxes, and what is executed in process,
// read the JSON of others.
func TestJSON(t *testing.T) {
	source := jsonSource{}
	for _, name := range files(t, "../..", regexp.MustCompile(`\.go$`)) {
		if strings.HasSuffix(name, "_test.go") || regexp.MustCompile(`^(e2e|tools|internal/sandbox|internal/fakecni|internal/inprocess)/`).MatchString(name) {
			continue
		}
		source.add(t, name, read(t, filepath.Join("../..", name)))
	}
	for _, fault := range source.faults() {
		t.Error(fault)
	}
	for key, names := range foreignKeys {
		var own []string
		if source[key] != nil {
			for _, field := range source[key].fields {
				own = append(own, keyOf(field))
			}
		}
		for _, name := range names {
			if !slices.Contains(own, name) {
				t.Errorf("%s has no key %q", key, name)
			}
		}
	}
}

// TestJSONFaults: each kind of fault is found.
func TestJSONFaults(t *testing.T) {
	source := jsonSource{}
	source.add(t, "a/a.go", []byte("package a\n"+`
import ("time"; "github.com/containerd/go-cni"; "github.com/allocnet/allocnet/b")
type good struct { ID string `+"`json:\"id\"`"+`; When time.Time `+"`json:\"when\"`"+`; hidden cni.DNS }
type bad struct {
	Snake string `+"`json:\"snake_case\"`"+`
	Upper string `+"`json:\"Upper\"`"+`
	Mixed string `+"`json:\"netnsId\"`"+`
	DNS []cni.DNS `+"`json:\"dns\"`"+`
	Inner *struct { X int } `+"`json:\"inner\"`"+`
	Near map[string]near `+"`json:\"near\"`"+`
	b.Far
}
type near struct { Untagged int; own }
type own struct { Untagged int }
func (*own) UnmarshalText([]byte) error { return nil }
type unused struct { Untagged int }`))
	source.add(t, "b/b.go", []byte("package b\ntype Far struct { Untagged int }"))
	got := source.faults()
	want := []string{
		`a.bad.inner: field X has no key`,
		`a.bad: has a github.com/containerd/go-cni.DNS`,
		`a.bad: key "Upper" is not lower camel case`,
		`a.bad: key "netnsId" is not lower camel case`,
		`a.bad: key "snake_case" is not lower camel case`,
		`a.near: field Untagged has no key`,
		`b.Far: field Untagged has no key`,
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}
