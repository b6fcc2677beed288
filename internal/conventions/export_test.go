// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package conventions

import (
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// called are exported names that no package of the module uses, with the reason.
var called = map[string]string{
	"agent/api.CodeFailed": "clients of the agent compare with its codes",
	".Error":               "error", ".Is": "errors.Is", ".Unwrap": "errors.Is",
	".MarshalText": "encoding.TextMarshaler", ".String": "fmt.Stringer", ".MarshalJSON": "encoding/json", ".UnmarshalJSON": "encoding/json", ".UnmarshalText": "encoding.TextUnmarshaler",
	".FindInPath": "invoke.Exec of libcni",
	".Reserve":    "host-local's Store", ".LastReservedIP": "host-local's Store",
	".ProtoMessage": "gRPC, of its messages", ".XXX_MessageName": "protobuf",
}

// standIns are packages that only Nomad and the linter use.
var standIns = regexp.MustCompile(`^tools/(nomad|lint)/`)

// exports are the exported names of packages, as "folder.Name" or "folder.Type.Method",
// with their package.
type exports struct {
	declared map[string]string
	// users are the packages that use a name, "folder.Name". A method is ".Name", of
	// any type.
	users map[string][]string
}

func (x *exports) use(name, user string) { x.users[name] = append(x.users[name], user) }

// add collects the names of a file. An external test package is a user of its own.
func (x *exports) add(t *testing.T, name string, data []byte) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), name, data, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	folder, imports := path.Dir(name), map[string]string{}
	owner := folder + " " + file.Name.Name
	for _, i := range file.Imports {
		imported := strings.TrimPrefix(strings.Trim(i.Path.Value, `"`), "github.com/allocnet/allocnet/")
		local := path.Base(imported)
		if i.Name != nil {
			local = i.Name.Name
		}
		imports[local] = imported
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SelectorExpr:
			of, _ := n.X.(*ast.Ident)
			if of == nil {
				of = &ast.Ident{}
			}
			x.use(imports[of.Name]+"."+n.Sel.Name, owner)
		case *ast.Field: // a method of an interface
			for _, name := range n.Names {
				x.use("."+name.Name, "an interface")
			}
		}
		return true
	})
	if strings.HasSuffix(name, "_test.go") || file.Name.Name == "main" {
		return
	}
	for _, d := range file.Decls {
		if f, ok := d.(*ast.FuncDecl); ok {
			x.function(folder, owner, f)
			continue
		}
		var of ast.Expr // the type, also of the constants that repeat it
		for _, spec := range d.(*ast.GenDecl).Specs {
			switch s := spec.(type) {
			case *ast.TypeSpec:
				x.declare(folder, owner, s.Name.Name, s.Type)
			case *ast.ValueSpec:
				if s.Type != nil || s.Values != nil {
					of = s.Type
				}
				if typed, ok := of.(*ast.Ident); ok && typed.IsExported() {
					continue // a value that the type can have
				}
				for _, name := range s.Names {
					x.declare(folder, owner, name.Name, nil)
				}
			}
		}
	}
}

func (x *exports) function(folder, owner string, f *ast.FuncDecl) {
	name := f.Name.Name
	if f.Recv != nil {
		name = strings.TrimLeft(types.ExprString(f.Recv.List[0].Type), "*") + "." + name
	}
	if f.Name.IsExported() {
		x.declare(folder, owner, name, f.Type)
	}
}

func (x *exports) declare(folder, owner, name string, n ast.Node) {
	if ast.IsExported(name) {
		x.declared[folder+"."+name] = owner
		x.reach(folder, n)
	}
}

// reach marks the types of an exported declaration as used: callers have to name them.
func (x *exports) reach(folder string, n ast.Node) {
	if n == nil {
		return
	}
	ast.Inspect(n, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.Ident:
			x.use(folder+"."+n.Name, "a declaration")
		case *ast.StructType:
			for _, field := range n.Fields.List {
				if field.Names == nil || field.Names[0].IsExported() {
					x.reach(folder, field.Type)
				}
			}
			return false
		}
		return true
	})
}

// unused returns the names that no other package uses.
func (x *exports) unused() []string {
	var found []string
	for name, owner := range x.declared {
		if standIns.MatchString(name) {
			continue
		}
		key := name
		if parts := strings.Split(name, "."); len(parts) > 2 {
			key = "." + parts[2]
		}
		if called[key] == "" && !slices.ContainsFunc(x.users[key], func(user string) bool { return user != owner }) {
			found = append(found, name)
		}
	}
	slices.Sort(found)
	return found
}

// TestExports: a name that no other package uses is not exported.
func TestExports(t *testing.T) {
	x := &exports{map[string]string{}, map[string][]string{}}
	for _, name := range files(t, "../..", regexp.MustCompile(`\.go$`)) {
		x.add(t, filepath.ToSlash(name), read(t, filepath.Join("../..", name)))
	}
	if unused := x.unused(); len(unused) > 0 || len(x.declared) < 100 {
		t.Errorf("of %d exported names, no other package uses %q", len(x.declared), unused)
	}
}

// TestUnusedExportsAreFound: other packages, external tests, interfaces and exported
// declarations are uses.
func TestUnusedExportsAreFound(t *testing.T) {
	x := &exports{map[string]string{}, map[string][]string{}}
	for name, code := range map[string]string{
		"a/a.go":        "package a\ntype T struct { F Field; f Hidden }\ntype Field int\nconst Of Field = 1\ntype Hidden int\nfunc (T) M() { T{}.N(); Own() }\nfunc (T) N() {}\nfunc (T) I() {}\nfunc Own() {}\nfunc Tested() {}\nvar V, w = 1, 2\n",
		"a/in_test.go":  "package a\nfunc f() { Own() }\n",
		"a/out_test.go": "package a_test\nimport \"github.com/allocnet/allocnet/a\"\nfunc f() { a.Tested() }\n",
		"b/b.go":        "package b\nimport x \"github.com/allocnet/allocnet/a\"\ntype i interface { I() }\nfunc f() { x.T{}.M() }\n",
		"d/d.go":        "package d\nimport (\n\"github.com/allocnet/allocnet/c/a\"\ny \"github.com/allocnet/allocnet/a\"\n)\nfunc f() { a.Same(); _ = y.T{} }\n",
		"c/a/a.go":      "package a\nfunc Same() {}\n",
	} {
		x.add(t, name, []byte(code))
	}
	requireSame(t, "a", x.unused(), []string{"a.Hidden", "a.T.N", "a.Own", "a.V"})
}
