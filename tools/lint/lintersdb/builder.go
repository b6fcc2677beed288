// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Package lintersdb takes the place of a file of golangci-lint, and has the linters that .golangci.yml enables, and no
// others: those are most of what would be compiled. golangci-lint fails if one that is enabled is not here.
package lintersdb

import (
	"github.com/golangci/golangci-lint/v2/pkg/config"
	"github.com/golangci/golangci-lint/v2/pkg/golinters/bodyclose"
	"github.com/golangci/golangci-lint/v2/pkg/golinters/depguard"
	"github.com/golangci/golangci-lint/v2/pkg/golinters/errcheck"
	"github.com/golangci/golangci-lint/v2/pkg/golinters/errorlint"
	"github.com/golangci/golangci-lint/v2/pkg/golinters/forbidigo"
	"github.com/golangci/golangci-lint/v2/pkg/golinters/funlen"
	"github.com/golangci/golangci-lint/v2/pkg/golinters/gochecknoinits"
	"github.com/golangci/golangci-lint/v2/pkg/golinters/gofmt"
	"github.com/golangci/golangci-lint/v2/pkg/golinters/govet"
	"github.com/golangci/golangci-lint/v2/pkg/golinters/ineffassign"
	"github.com/golangci/golangci-lint/v2/pkg/golinters/misspell"
	"github.com/golangci/golangci-lint/v2/pkg/golinters/nolintlint"
	"github.com/golangci/golangci-lint/v2/pkg/golinters/revive"
	"github.com/golangci/golangci-lint/v2/pkg/golinters/staticcheck"
	"github.com/golangci/golangci-lint/v2/pkg/golinters/unconvert"
	"github.com/golangci/golangci-lint/v2/pkg/golinters/unparam"
	"github.com/golangci/golangci-lint/v2/pkg/golinters/unused"
	"github.com/golangci/golangci-lint/v2/pkg/lint/linter"
)

// LinterBuilder makes the linters.
type LinterBuilder struct{}

// NewLinterBuilder returns one.
func NewLinterBuilder() *LinterBuilder { return &LinterBuilder{} }

// Build makes the linters with their settings. What each needs of the packages is as golangci-lint has it.
func (LinterBuilder) Build(cfg *config.Config) ([]*linter.Config, error) {
	if cfg == nil {
		return nil, nil
	}
	s := &cfg.Linters.Settings
	return []*linter.Config{
		linter.NewConfig(bodyclose.New(&s.BodyClose)).WithLoadForGoAnalysis(),
		linter.NewConfig(depguard.New(&s.Depguard, config.NewPlaceholderReplacer(cfg))),
		linter.NewConfig(errcheck.New(&s.Errcheck)).WithLoadForGoAnalysis(),
		linter.NewConfig(errorlint.New(&s.ErrorLint)).WithLoadForGoAnalysis(),
		linter.NewConfig(forbidigo.New(&s.Forbidigo)).WithLoadForGoAnalysis(),
		linter.NewConfig(funlen.New(&s.Funlen)),
		linter.NewConfig(gochecknoinits.New()),
		linter.NewConfig(gofmt.New(&s.GoFmt)).WithAutoFix(),
		linter.NewConfig(govet.New(&s.Govet)).WithLoadForGoAnalysis().WithAutoFix(),
		linter.NewConfig(ineffassign.New(&s.Ineffassign)),
		linter.NewConfig(misspell.New(&s.Misspell)).WithAutoFix(),
		linter.NewConfig(revive.New(&s.Revive)).ConsiderSlow().WithAutoFix(),
		linter.NewConfig(staticcheck.New(&s.Staticcheck)).WithLoadForGoAnalysis().WithAutoFix(),
		linter.NewConfig(unconvert.New(&s.Unconvert)).WithLoadForGoAnalysis(),
		linter.NewConfig(unparam.New(&s.Unparam)).WithLoadForGoAnalysis(),
		linter.NewConfig(unused.New(&s.Unused)).WithLoadForGoAnalysis().ConsiderSlow().WithChangeTypes(),
		// The last one: it looks at what the others have found.
		linter.NewConfig(nolintlint.New(&s.NoLintLint)).WithAutoFix(),
	}, nil
}
