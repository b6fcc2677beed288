#!/bin/bash
# Copyright (c) the allocnet authors
# SPDX-License-Identifier: MPL-2.0

# nomad-build.sh MODULE DIRECTORY builds the Nomad agent of a module into a directory.
# If the module has api.sed, a copy of Nomad's API module with it applied is used.
set -euo pipefail
api=github.com/hashicorp/nomad/api
directory=$(mkdir -p "$2" && cd "$2" && pwd)
cd "$1"
options=()
if [ -e api.sed ]; then
	rm -rf "$directory/api"
	go mod download "$api"
	cp -r --no-preserve=mode "$(go list -m -f '{{.Dir}}' "$api")" "$directory/api"
	sed -i -f api.sed "$directory"/api/jobs.go
	cp go.sum "$directory/with-api.sum"
	sed "\$a replace $api => $directory/api" go.mod >"$directory/with-api.mod"
	options=(-modfile "$directory/with-api.mod")
fi
go build "${options[@]}" -o "$directory/" tool
