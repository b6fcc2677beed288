// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Command traffic is what allocations of the tests do to each other: they answer, they check
// that they reach each other, and they count what is lost while something fails.
package main

import (
	"errors"
	"fmt"
	"os"
	"strconv"
)

// The ports of a server, as those of RFC 862 and RFC 863.
const (
	echo    = "7"
	discard = "9"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		_, _ = fmt.Fprintln(os.Stderr, "traffic:", err)
		os.Exit(1)
	}
}

func run(words []string) error {
	usage := errors.New("want: traffic serve, reach ADDRESS..., refused ADDRESS, send FLOW=ADDRESS..., throughput ADDRESS MILLISECONDS or latency ADDRESS COUNT")
	switch {
	case len(words) == 1 && words[0] == "serve":
		return serve()
	case len(words) > 1 && words[0] == "reach":
		return reach(words[1:])
	case len(words) == 2 && words[0] == "refused":
		return refused(words[1])
	case len(words) > 1 && words[0] == "send":
		return send(words[1:])
	case len(words) == 3:
		n, err := strconv.Atoi(words[2])
		if err != nil {
			return err
		}
		switch words[0] {
		case "throughput":
			return throughput(words[1], n)
		case "latency":
			return latency(words[1], n)
		}
	}
	return usage
}
