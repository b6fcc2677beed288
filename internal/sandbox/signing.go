// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package sandbox

import (
	"fmt"
	"os/exec"
)

// makeKey makes a key for signatures, with a passphrase.
const makeKey = `
export GNUPGHOME=$1/gnupg
mkdir -m 700 "$GNUPGHOME"
echo secret >"$1/passphrase"
gpg="gpg --batch --quiet --pinentry-mode loopback --passphrase-file $1/passphrase"
$gpg --quick-generate-key "allocnet of the tests" rsa3072 sign never
$gpg --armor --export-secret-keys >"$1/key"
gpgconf --kill gpg-agent`

// NewSigningKey makes a key of a release in a directory, and returns the variables with which the scripts of dist sign.
func NewSigningKey(dir string) ([]string, error) {
	if out, err := exec.Command("sh", "-euc", makeKey, "sh", dir).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("key of a release: %w: %s", err, out)
	}
	return []string{"SIGNING_KEY=" + dir + "/key", "SIGNING_PASSPHRASE=" + dir + "/passphrase"}, nil
}
