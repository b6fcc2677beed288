#!/usr/bin/env bash
# Copyright (c) the allocnet authors
# SPDX-License-Identifier: MPL-2.0

# build.sh DIRECTORY PROGRAM builds golangci-lint with the linters that .golangci.yml enables, of a copy of its source in
# DIRECTORY: the file that has all linters is replaced. Its go.mod is there, too.
set -euo pipefail
copy=$1
program=$2
cd "$(dirname "$0")"
module=github.com/golangci/golangci-lint/v2
go mod download $module
rm -rf "$copy"
mkdir -p "$copy"
cp -r "$(go list -m -f '{{.Dir}}' $module)" "$copy/source"
chmod -R u+w "$copy/source"
cp lintersdb/builder.go "$copy/source/pkg/lint/lintersdb/builder_linter.go"
cp go.mod go.sum "$copy"
go mod edit -replace "$module=$copy/source" "$copy/go.mod"
go build -modfile "$copy/go.mod" -o "$program" $module/cmd/golangci-lint
