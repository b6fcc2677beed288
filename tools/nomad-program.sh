#!/usr/bin/env bash
# Copyright (c) the allocnet authors
# SPDX-License-Identifier: MPL-2.0

# nomad-program.sh PATH prints the absolute path of an installed Nomad, or fails if it is another program or none.
set -euo pipefail
if [ -f "$1" ] && [ -x "$1" ]; then
	program=$(realpath -- "$1")
	case $("$program" version 2>/dev/null || true) in
	"Nomad v"*)
		printf '%s\n' "$program"
		exit
		;;
	esac
fi
printf 'make test-nomad: "%s" is no Nomad: name an installed one, such as NOMAD=/usr/bin/nomad\n' "$1" >&2
exit 1
