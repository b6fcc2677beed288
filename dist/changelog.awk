# Copyright (c) the allocnet authors
# SPDX-License-Identifier: MPL-2.0

# Writes the newest version of CHANGELOG.md as the changelog of the packages, in the
# form of nfpm. Variables: version, date, packager.
function flush() {
	if (note != "") printf "    - note: '%s'\n", note
	note = ""
}
BEGIN {
	printf "- semver: %s\n  date: %s\n  packager: %s\n  deb: {urgency: medium, distributions: [stable]}\n  changes:\n", version, date, packager
}
/^## / { if (++versions > 1) exit; next }
{ gsub(/'/, "''"); gsub(/`/, "") }
/^- / { flush(); note = substr($0, 3); next }
/^  / { note = note " " substr($0, 3); next }
{ flush() }
END { flush() }
