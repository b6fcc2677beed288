// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package ipam

// KeepArg is the key of CNI_ARGS that with the value "true" has DEL keep the addresses of an
// attachment, which is attached again: the next ADD gets the same, and nothing else does meanwhile.
const KeepArg = "ALLOCNET_KEEP_ADDRESSES"
