// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package cniexec

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/containernetworking/cni/pkg/types"
	"github.com/containernetworking/cni/pkg/version"

	"github.com/allocnet/allocnet/internal/errdefs"
)

// execFunc is an invoke.Exec in memory.
type execFunc func(ctx context.Context) ([]byte, error)

func (f execFunc) ExecPlugin(ctx context.Context, _ string, _ []byte, _ []string) ([]byte, error) {
	return f(ctx)
}
func (execFunc) FindInPath(plugin string, _ []string) (string, error) { return plugin, nil }
func (execFunc) Decode([]byte) (version.PluginInfo, error)            { return version.All, nil }

func answers(result string, err error) execFunc {
	return func(context.Context) ([]byte, error) { return []byte(result), err }
}

// hangs answers only when its context ends, as a plugin that is killed does.
func hangs(ctx context.Context) ([]byte, error) {
	<-ctx.Done()
	return nil, errors.New("signal: killed")
}

func environ(verb string) []string { return []string{"A=1", "CNI_COMMAND=" + verb} }

func TestRunnerResults(t *testing.T) {
	const good, bad = `{"ips": []}`, `{"ips": [null]}`
	broken := types.NewError(104, "no fabric", "")
	for name, test := range map[string]struct {
		exec execFunc
		verb string
		want string
		fail string
	}{
		"result":                       {answers(good, nil), "ADD", good, ""},
		"no result":                    {answers("", nil), "DEL", "", ""},
		"malformed result":             {answers(bad, nil), "ADD", "", "plugin bridge: ADD: result: ips[0] is null"},
		"only results are checked":     {answers(bad, nil), "CHECK", bad, ""},
		"the error of the plugin":      {answers("", broken), "ADD", "", "no fabric"},
		"the error of a plugin in DEL": {answers("", broken), "DEL", "", "no fabric"},
	} {
		r := &Runner{Exec: test.exec, Limit: time.Hour}
		got, err := r.ExecPlugin(t.Context(), "/x/bridge", nil, environ(test.verb))
		if test.fail == "" && err != nil || test.fail != "" && (err == nil || err.Error() != test.fail) || string(got) != test.want {
			t.Errorf("%s: %q, %v, want %q, %q", name, got, err, test.want, test.fail)
		}
	}
}

// TestRunnerReports each result of ADD with its index, but no failure and no other
// verb.
func TestRunnerReports(t *testing.T) {
	var got []string
	r := &Runner{Limit: time.Hour, Added: func(index int, result []byte) { got = append(got, fmt.Sprint(index, string(result))) }}
	for _, call := range []struct {
		verb, result string
		err          error
	}{{"ADD", "{}", nil}, {"ADD", `{"ips": [null]}`, nil}, {"ADD", "", errors.New("x")}, {"DEL", "", nil}, {"ADD", `{"ips": []}`, nil}} {
		r.Exec = answers(call.result, call.err)
		_, _ = r.ExecPlugin(t.Context(), "/x/bridge", nil, environ(call.verb))
	}
	if want := []string{"0{}", `1{"ips": []}`}; !slices.Equal(got, want) {
		t.Errorf("reported %q, want %q", got, want)
	}
}

// TestRunnerDeadline: a call ends at its own deadline, or at an earlier one of the
// operation, as a *TimeoutError. A cancelled operation ends with its cause.
func TestRunnerDeadline(t *testing.T) {
	gaveUp := errors.New("the caller gave up")
	for name, test := range map[string]struct {
		operation, limit, cancel, want time.Duration
	}{
		"its own":         {0, time.Minute, 0, time.Minute},
		"the operation's": {time.Second, time.Minute, 0, time.Second},
		"a later one":     {time.Hour, time.Minute, 0, time.Minute},
		"cancelled":       {0, time.Minute, time.Second, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancelCause(t.Context())
				if test.operation > 0 {
					limited, stop := context.WithTimeout(ctx, test.operation)
					defer stop()
					ctx = limited
				}
				if test.cancel > 0 {
					time.AfterFunc(test.cancel, func() { cancel(gaveUp) })
				}
				r := &Runner{Exec: execFunc(hangs), Limit: test.limit}
				_, err := r.ExecPlugin(ctx, "/x/bridge", nil, environ("ADD"))
				var timeout *TimeoutError
				if test.want == 0 {
					if !errors.Is(err, gaveUp) {
						t.Errorf("%v, want %v", err, gaveUp)
					}
				} else if !errors.As(err, &timeout) || *timeout != (TimeoutError{"bridge", "ADD", test.want}) || errdefs.Of(err) != errdefs.Timeout {
					t.Errorf("%v, want a timeout after %s", err, test.want)
				}
				cancel(nil)
			})
		})
	}
}

// TestRunnerAfterTheEnd: nothing is run for an operation that is over.
func TestRunnerAfterTheEnd(t *testing.T) {
	gaveUp := errors.New("the caller gave up")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(gaveUp)
	r := &Runner{Limit: time.Hour, Exec: execFunc(func(context.Context) ([]byte, error) {
		t.Error("the plugin was run")
		return nil, nil
	})}
	if _, err := r.ExecPlugin(ctx, "/x/bridge", nil, environ("ADD")); !errors.Is(err, gaveUp) {
		t.Errorf("%v, want %v", err, gaveUp)
	}
}

func TestVerb(t *testing.T) {
	for want, environ := range map[string][]string{"GC": environ("GC"), "call": {"CNI_IFNAME=eth0"}} {
		if got := Verb(environ); got != want {
			t.Errorf("%q: %s, want %s", environ, got, want)
		}
	}
}

// TestRunnerAsksAfterDEL: a DEL that reports success has failed if the caller says so; it is not asked after one that fails.
func TestRunnerAsksAfterDEL(t *testing.T) {
	left := errors.New("a chain is left")
	var asked []string
	r := &Runner{Limit: time.Hour, Deleted: func(_ context.Context, plugin string) error { asked = append(asked, plugin); return left }}
	for _, call := range []struct {
		verb string
		err  error
		want error
	}{{"DEL", nil, left}, {"DEL", context.Canceled, context.Canceled}, {"ADD", nil, nil}, {"CHECK", nil, nil}} {
		r.Exec = answers("{}", call.err)
		if _, err := r.ExecPlugin(t.Context(), "/x/bridge", nil, environ(call.verb)); !errors.Is(err, call.want) {
			t.Errorf("%s: %v, want %v", call.verb, err, call.want)
		}
	}
	if !slices.Equal(asked, []string{"bridge"}) {
		t.Errorf("asked %q", asked)
	}
}
