// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package netns

// LinkGroup is the group of links that allocnet makes on the host with names that tell nothing of that. They have it from
// the beginning, so a rule of udev marks them for network managers (dist/udev). It is "allo" in ASCII: operators number
// groups from 1.
const LinkGroup = 0x616c6c6f
