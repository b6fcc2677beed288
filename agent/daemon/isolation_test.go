// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package daemon

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"
)

// answers are those of an engine, one after the other; each is told when it was asked for.
type answers struct {
	errs  []error
	asked chan struct{}
}

func (a *answers) Refresh(context.Context) error {
	var err error
	if len(a.errs) > 0 {
		err, a.errs = a.errs[0], a.errs[1:]
	}
	a.asked <- struct{}{}
	return err
}

// TestIsolationIsKept: isolation is refreshed at the start and after a change of the networks, and a mistake is logged once.
func TestIsolationIsKept(t *testing.T) {
	dir, mistake := t.TempDir(), errors.New("isolation.hcl:3: no such key")
	var log bytes.Buffer
	ctx, stop := context.WithCancel(t.Context())
	engine, done := &answers{[]error{nil, mistake, mistake}, make(chan struct{})}, make(chan struct{})
	r := &refresher{engine, []string{dir}, hclog.New(&hclog.LoggerOptions{Output: &log})}
	go func() { r.run(ctx); close(done) }()
	for _, name := range []string{"a", "b", "c", "d"} {
		<-engine.asked
		if err := os.WriteFile(filepath.Join(dir, name+".conflist"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	<-engine.asked
	stop()
	<-done
	if got := log.String(); strings.Count(got, mistake.Error()) != 1 || strings.Count(got, "isolation is as the rules and the networks have it") != 1 {
		t.Errorf("logged is:\n%s", got)
	}
}
