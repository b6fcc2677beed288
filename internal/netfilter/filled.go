// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package netfilter

import (
	"context"
	"errors"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// FilledChains returns the names of the chains of nftables that have rules: those of all tables of a family, such as "ip" or
// "inet", or of one, once for each rule. The program nft is not needed. A kernel without nftables has none.
func FilledChains(ctx context.Context, family, table string) ([]string, error) {
	s, err := Dial(ctx)
	if err != nil {
		return nil, ignoreUnsupported(err)
	}
	defer s.Close() //nolint:errcheck // read only
	var replies []netlink.Message
	for range listAttempts { // a listing during a change ends with an error, and may leave rules out
		replies, err = s.Execute(message(unix.NFT_MSG_GETRULE, netlink.Dump, families[family], nil))
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	var chains []string
	for _, reply := range replies {
		payload := reply.Data[min(nfgenmsgSize, len(reply.Data)):]
		if table == "" || stringOf(payload, unix.NFTA_RULE_TABLE) == table {
			chains = append(chains, stringOf(payload, unix.NFTA_RULE_CHAIN))
		}
	}
	return chains, ignoreUnsupported(err)
}
