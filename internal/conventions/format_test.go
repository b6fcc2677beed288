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
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// formats are the files that programs write, by the folder and what the code there calls the file. The value is the name of
// its golden files, testdata/NAME-VERSION.*, of which a test of the folder reads each; or, after a "-", why it has none.
var formats = map[string]string{
	"cluster/connect c.path()":                                                    "- Nomad is asked again",
	"cluster/hostid filepath.Join(dir, fileName)":                                 "- lines of text without a version",
	"cluster/ipam/block d.pathOf(name)":                                           "- the others of the folder",
	"cluster/ipam/block endpointFile":                                             "endpoint",
	"cluster/ipam/block nodeFile":                                                 "node",
	"cluster/ipam/block presentFile":                                              "present",
	"cluster/ipam/block recordsFile":                                              "blocks",
	"cluster/ipam/block viewFile":                                                 "view",
	"cluster/ipam/filestore filepath.Join(s.dir, counterName)":                    "- a number",
	"cluster/ipam/filestore s.file(path)":                                         "- a number before what the store has, which has a version",
	"cluster/ipam/local filepath.Join(dir, ipam.BlockName(b))":                    "- 8 bytes for each address",
	"cluster/ipam/pool c.path":                                                    "- a number",
	"cluster/ipam/reserved d.path(memoryName)":                                    "memory",
	"cluster/ipam/reserved path":                                                  "record",
	"cluster/route t.recordPath(want.Pool)":                                       "record",
	"cluster/span/packetfilter k.recordPath()":                                    "record",
	`cmd/allocnet/manual filepath.Join(dir, fmt.Sprintf("%s.%d", name, section))`: "- a man page",
	"cleanup path":                                                 "- host-local's, which is locked",
	"internal/leases filepath.Dir(path)":                           "- host-local's",
	`state s.lockPath(entry.Name())`:                               "- a lock",
	"cniplugin path":                                               "- a log",
	"cniconf path":                                                 "- CNI's",
	"event r.path(currentFile)":                                    "event",
	"event r.path(previousFile)":                                   "event",
	"hook/internal/cache path":                                     "- libcni's",
	"hook/internal/kernel filepath.Join(dir, name)":                "- the kernel's",
	"internal/inprocess/tuning path":                               "- that of the reference plugin",
	"internal/leases filepath.Join(s.dir, lastReserved + rangeID)": "- host-local's",
	"internal/leases path":                                         "- host-local's, and an index that is made again",
	"internal/resolvconf fileName":                                 "- resolv.conf",
	"networkstatus name":                                           "- for tasks",
	"nomad c.path(id)":                                             "- Nomad is asked again",
	"state i.file()":                                               "- of one boot, and made anew from the operator's files",
	"state i.learned(pool)":                                        "- what the agent learns again from other hosts",
	"state i.learning()":                                           "- empty",
	"state i.preparedFile()":                                       "- read by no build but the one that wrote it",
	"state i.textFile()":                                           "- a sum, and what it is of: any other line is none",
	"state j.path()":                                               "format",
	"state path":                                                   "- lines of text without a version",
}

// writers are the functions that write a file, by the argument that names it.
var writers = map[string]int{"files.Replace": 0, "files.ReplaceJSON": 0, "files.ReplaceIn": 1, "files.Overwrite": 0, "os.WriteFile": 0, "os.Create": 0, "writeJSON": 1, "v.dir.write": 0}

// locks are the flags of files that are only read, or locked.
var locks = regexp.MustCompile(`O_RDONLY|O_DIRECTORY|O_PATH`)

// openers open a file with flags, the argument behind its name.
var openers = []string{"files.Open", "os.OpenFile"}

// written returns what a file of Go calls the files that it writes.
func written(t *testing.T, path string, data []byte) (names []string) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), path, data, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(file, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		callee := types.ExprString(call.Fun)
		at, writes := writers[callee]
		if slices.Contains(openers, callee) && !locks.MatchString(types.ExprString(call.Args[1])) {
			writes = true
		}
		if writes {
			names = append(names, filepath.Dir(path)+" "+types.ExprString(call.Args[at]))
		}
		return true
	})
	return names
}

// goldens returns the faults of the golden files of a format.
func goldens(folder, name, tests string) error {
	all, err := filepath.Glob(filepath.Join(folder, "testdata", name+"-*.j*"))
	if err != nil || len(all) == 0 {
		return fmt.Errorf("%s has no testdata/%s-VERSION.json: %w", folder, name, err)
	}
	if !strings.Contains(tests, "testdata/"+name+"-") {
		return fmt.Errorf("no test of %s reads testdata/%s-VERSION.json", folder, name)
	}
	return nil
}

// TestFormatsHaveGoldenFiles: a file that a program of a later release has to read has one of each version of it.
func TestFormatsHaveGoldenFiles(t *testing.T) {
	found := map[string]bool{}
	elsewhere := regexp.MustCompile(`_test\.go$|^(e2e|tools|build|internal/(sandbox|files|fakecni))/`)
	for _, path := range files(t, "../..", regexp.MustCompile(`\.go$`)) {
		if !elsewhere.MatchString(path) {
			for _, name := range written(t, path, read(t, filepath.Join("../..", path))) {
				found[name] = true
			}
		}
	}
	requireSame(t, "files that are written, and formats", slices.Sorted(maps.Keys(found)), slices.Sorted(maps.Keys(formats)))
	tests := folders(t, `_test\.go$`)
	for file, name := range formats {
		folder, _, _ := strings.Cut(file, " ")
		if !strings.HasPrefix(name, "-") {
			if err := goldens(filepath.Join("../..", folder), name, tests["./"+folder]); err != nil {
				t.Error(err)
			}
		}
	}
}

// TestWrittenFilesAreFound: what is only read, or opened to be locked, is no file that is written.
func TestWrittenFilesAreFound(t *testing.T) {
	code := "package p\nfunc f() {\n_ = files.Replace(a(b), nil, files.Options{})\n_, _ = os.OpenFile(c, os.O_RDWR, 0)\n" +
		"_, _ = files.Open(d, os.O_CREATE|os.O_RDONLY, 0)\n_ = writeJSON(x, e, nil)\n_, _ = os.ReadFile(g)\n}\n"
	requireSame(t, "p", written(t, "p/p.go", []byte(code)), []string{"p a(b)", "p c", "p e"})
	if err := goldens("../../state", "format", ""); err == nil {
		t.Error("no test is enough")
	}
	if err := goldens("../../state", "none", "testdata/none-"); err == nil {
		t.Error("no file is enough")
	}
}
