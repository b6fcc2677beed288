#!/usr/bin/env bash
# Copyright (c) the allocnet authors
# SPDX-License-Identifier: MPL-2.0

# Runs gpg with the key of the release alone, and leaves no copy of it.
# SIGNING_KEY is the file of the secret key, and SIGNING_PASSPHRASE that of its passphrase, if it has one.
# Usage: SIGNING_KEY=/FILE dist/gpg.sh ARGUMENTS-OF-GPG
set -euo pipefail

if [ -z "${SIGNING_KEY-}" ]; then
	echo "SIGNING_KEY is not set, want the absolute path of the file of a secret key" >&2
	exit 1
fi
for variable in SIGNING_KEY SIGNING_PASSPHRASE; do
	case ${!variable-} in
	/* | "") ;;
	*)
		echo "$variable is \"${!variable}\", want the absolute path of a file" >&2
		exit 1
		;;
	esac
done
GNUPGHOME=$(mktemp -d)
export GNUPGHOME
trap 'gpgconf --kill gpg-agent; rm -rf "$GNUPGHOME"' EXIT
gpg=(gpg --batch --yes --quiet --pinentry-mode loopback --passphrase-file "${SIGNING_PASSPHRASE:-/dev/null}" --digest-algo SHA512)
"${gpg[@]}" --import "$SIGNING_KEY"
"${gpg[@]}" "$@"
