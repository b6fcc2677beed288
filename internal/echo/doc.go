// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Package echo sends ICMP echo requests and waits for the replies. It needs CAP_NET_RAW.
package echo
