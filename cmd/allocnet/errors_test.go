// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"

	"github.com/containernetworking/cni/pkg/types"

	"github.com/allocnet/allocnet/agent"
	"github.com/allocnet/allocnet/agent/api"
	"github.com/allocnet/allocnet/agent/client"
	"github.com/allocnet/allocnet/cleanup"
	"github.com/allocnet/allocnet/cluster/ipam"
	"github.com/allocnet/allocnet/cluster/ipam/block"
	"github.com/allocnet/allocnet/cluster/ipam/local"
	"github.com/allocnet/allocnet/cluster/ipam/reserved"
	"github.com/allocnet/allocnet/cluster/pools"
	"github.com/allocnet/allocnet/cluster/rest"
	"github.com/allocnet/allocnet/cluster/route"
	"github.com/allocnet/allocnet/cluster/span"
	"github.com/allocnet/allocnet/cmd/allocnet/cli"
	"github.com/allocnet/allocnet/cniconf"
	"github.com/allocnet/allocnet/hook"
	"github.com/allocnet/allocnet/internal/cniexec"
	dhcp "github.com/allocnet/allocnet/internal/dhcp/client"
	"github.com/allocnet/allocnet/internal/echo"
	"github.com/allocnet/allocnet/internal/errdefs"
	"github.com/allocnet/allocnet/internal/files"
	"github.com/allocnet/allocnet/internal/hclfile"
	"github.com/allocnet/allocnet/internal/netns"
	"github.com/allocnet/allocnet/internal/resolvconf"
	"github.com/allocnet/allocnet/internal/strictjson"
	"github.com/allocnet/allocnet/policy"
	"github.com/allocnet/allocnet/selection"
	"github.com/allocnet/allocnet/state"
)

// outcome is what an error becomes: exit code, HTTP status, CNI code.
type outcome struct {
	exit, status int
	code         uint
}

var (
	failed      = outcome{1, 500, 999}
	timeout     = outcome{1, 504, 11}
	unavailable = outcome{1, 503, 11}
	conflict    = outcome{2, 409, 101}
	refused     = outcome{2, 422, 7}
	notFound    = outcome{3, 404, 3}
)

// outcomes has every error type, and every exported error, of the module.
var outcomes = map[string]struct {
	err  error
	want outcome
}{
	"agent.ErrRunning":                    {agent.ErrRunning, failed},
	"agent/api.Error":                     {&api.Error{Status: 503}, unavailable},
	"agent/client.ErrUnavailable":         {client.ErrUnavailable, unavailable},
	"internal/hclfile.Error":              {&hclfile.Error{}, refused},
	"cluster/pools.ErrDisagree":           {pools.ErrDisagree, refused},
	"cluster/span.ErrLocked":              {span.ErrLocked, conflict},
	"cleanup.ErrLiveUnknown":              {cleanup.ErrLiveUnknown, unavailable},
	"cleanup.Failure":                     {cleanup.Failure{Err: errors.New("x")}, failed},
	"cleanup.LeftError":                   {&cleanup.LeftError{}, failed},
	"cmd/allocnet/cli.ExitError":          {&cli.ExitError{Code: 7}, outcome{7, 500, 999}},
	"cniconf.BrokenFile":                  {cniconf.BrokenFile{Err: errors.New("x")}, failed},
	"cniconf.ErrNoDir":                    {cniconf.ErrNoDir, refused},
	"cniconf.MissingMasterError":          {&cniconf.MissingMasterError{}, refused},
	"cniconf.MissingPluginError":          {&cniconf.MissingPluginError{}, refused},
	"cniconf.NotFoundError":               {&cniconf.NotFoundError{}, refused},
	"hook/internal/inspect.DamageError":   {&hook.DamageError{}, failed},
	"internal/cniexec.ExecError":          {&cniexec.ExecError{Err: errors.New("x")}, failed},
	"hook/internal/step.PortFamilyError":  {&hook.PortFamilyError{}, refused},
	"hook/internal/plan.RequestError":     {&hook.RequestError{}, refused},
	"internal/cniexec.CommitTimeoutError": {&hook.Error{Err: &cniexec.CommitTimeoutError{}}, timeout},
	"internal/cniexec.TimeoutError":       {&hook.Error{Err: &cniexec.TimeoutError{}}, timeout},
	"internal/dhcp/client.ErrRefused":     {dhcp.ErrRefused, unavailable},
	"internal/dhcp/client.InUseError":     {&dhcp.InUseError{}, unavailable},
	"internal/dhcp/client.SilenceError":   {&dhcp.SilenceError{}, unavailable},
	"internal/echo.ErrSilent":             {echo.ErrSilent, timeout},
	"internal/netns.ErrExists":            {netns.ErrExists, conflict},
	"internal/netns.ErrMissing":           {netns.ErrMissing, refused},
	"internal/resolvconf.ErrForeign":      {resolvconf.ErrForeign, conflict},
	"internal/files.ErrDamaged":           {files.ErrDamaged, failed},
	"internal/files.ErrLater":             {files.ErrLater, failed},
	"internal/files.ErrNotRegular":        {files.ErrNotRegular, failed},
	"internal/strictjson.Mistake":         {&strictjson.Mistake{}, refused},
	"internal/netns.MissingError":         {&netns.MissingError{}, refused},
	"cluster/ipam.ErrInvalid":             {ipam.ErrInvalid, refused},
	"cluster/ipam.ErrMismatch":            {ipam.ErrMismatch, refused},
	"cluster/ipam.ErrTwin":                {ipam.ErrTwin, refused},
	"cluster/ipam.ErrExhausted":           {ipam.ErrExhausted, unavailable},
	"cluster/ipam.ErrFenced":              {ipam.ErrFenced, unavailable},
	"cluster/ipam.ErrNoLease":             {ipam.ErrNoLease, failed},
	"cluster/ipam.ErrNoNamespace":         {ipam.ErrNoNamespace, unavailable},
	"cluster/ipam.ErrNotFound":            {ipam.ErrNotFound, failed},
	"cluster/ipam.ErrConflict":            {ipam.ErrConflict, conflict},
	"cluster/ipam.ErrRefused":             {ipam.ErrRefused, unavailable},
	"cluster/ipam.ErrUnavailable":         {ipam.ErrUnavailable, unavailable},
	"cluster/ipam/block.ErrObjection":     {block.ErrObjection, unavailable},
	"cluster/ipam/local.FullError":        {&local.FullError{}, unavailable},
	"cluster/ipam/reserved.BusyError":     {&reserved.BusyError{}, unavailable},
	"cluster/ipam/reserved.RefusedError":  {&reserved.RefusedError{}, refused},
	"cluster/rest.Error":                  {&rest.Error{}, unavailable},
	"cluster/rest.TokenError":             {&rest.TokenError{}, refused},
	"policy.DeniedError":                  {&policy.DeniedError{}, refused},
	"cluster/route.ErrOverlap":            {route.ErrOverlap, conflict},
	"selection.Error":                     {&selection.Error{}, refused},
	"state.AmbiguousIDError":              {&state.AmbiguousIDError{}, refused},
	"state.ErrAttaching":                  {state.ErrAttaching, unavailable},
	"state.ErrLocked":                     {state.ErrLocked, unavailable},
	"state.ErrNotFound":                   {state.ErrNotFound, notFound},
	"state.UnreadableError":               {&state.UnreadableError{Err: state.ErrNotFound}, failed},
	"state.VersionError":                  {&state.VersionError{}, failed},

	"hook/internal/attach.ErrConflict":           {hook.ErrConflict, conflict},
	"hook/internal/attach.ErrExists":             {hook.ErrExists, conflict},
	"hook/internal/check.ErrNoStatus":            {hook.ErrNoStatus, failed},
	"hook/internal/operation.DamagedRecordError": {&hook.DamagedRecordError{}, failed},
	"hook/internal/operation.Error":              {&hook.Error{Err: &cniconf.MissingPluginError{}}, failed},
	"hook/internal/remove.ErrAlive":              {hook.ErrAlive, refused},
	"hook/internal/remove.NotAttachedError":      {&hook.NotAttachedError{}, refused},

	"a plugin's own code":            {&hook.Error{Err: types.NewError(104, "no fabric", "")}, outcome{1, 500, 104}},
	"refused, and the undo failed":   {errors.Join(&hook.RequestError{}, &hook.Error{Err: errors.New("x")}), failed},
	"an error without a type":        {errors.New("disk full"), failed},
	"a wrong flag":                   {cli.Usage(errors.New("--x")), refused},
	"a namespace that is not there":  {fmt.Errorf("allocation a1: %w", &netns.MissingError{}), refused},
	"interrupted while plugins work": {&hook.Error{Err: errdefs.New(errdefs.Unavailable, "the agent is stopping")}, unavailable},
}

func TestEveryErrorHasItsOutcome(t *testing.T) {
	for name, test := range outcomes {
		wrapped := fmt.Errorf("somewhere: %w", test.err)
		got := outcome{cli.ExitCode(wrapped), api.StatusOf(wrapped), api.CodeOf(wrapped)}
		if got != test.want {
			t.Errorf("%s: exit code, status and CNI code are %v, want %v", name, got, test.want)
		}
	}
	for _, name := range declaredErrors(t) {
		if _, ok := outcomes[name]; !ok {
			t.Errorf("%s is not in the table: give it a method Kind (or make it by errdefs.New), and add a line", name)
		}
	}
}

// declaredErrors returns the types with a method Error, and the exported
// variables that are errors, of all packages that are no part of the tests.
func declaredErrors(t *testing.T) []string {
	t.Helper()
	var names []string
	root := filepath.Join("..", "..")
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		below, _ := filepath.Rel(root, path)
		switch {
		case err != nil:
			return err
		case entry.IsDir() && (strings.HasPrefix(entry.Name(), ".") && below != "." || notOurs[below]):
			return fs.SkipDir
		case entry.IsDir() || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		for _, name := range errorsOf(file) {
			names = append(names, filepath.Dir(below)+"."+name)
		}
		return nil
	})
	if err != nil || len(names) < 30 {
		t.Fatalf("found %q, %v: want all errors of the module", names, err)
	}
	return names
}

// notOurs are what was built, what only tests use, and errdefs itself.
var notOurs = map[string]bool{"build": true, "e2e": true, "tools": true, "internal/sandbox": true, "internal/errdefs": true}

func errorsOf(file *ast.File) []string {
	var names []string
	for _, declaration := range file.Decls {
		switch d := declaration.(type) {
		case *ast.FuncDecl:
			if d.Recv != nil && d.Name.Name == "Error" && d.Type.Params.NumFields() == 0 {
				names = append(names, receiver(d))
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				v, ok := spec.(*ast.ValueSpec)
				if !ok || d.Tok != token.VAR || !strings.HasPrefix(v.Names[0].Name, "Err") {
					continue
				}
				if _, other := v.Values[0].(*ast.SelectorExpr); !other { // else it is another package's
					names = append(names, v.Names[0].Name)
				}
			}
		}
	}
	return names
}

func receiver(d *ast.FuncDecl) string {
	kind := d.Recv.List[0].Type
	if pointer, ok := kind.(*ast.StarExpr); ok {
		kind = pointer.X
	}
	return kind.(*ast.Ident).Name
}
