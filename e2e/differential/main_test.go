// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Package differential compares what package inprocess leaves on a host with what the
// reference plugins leave.
//
// Each configuration is run on the same host, which is wiped in between: with the plugins,
// in process, and crosswise, where one makes the attachment and the other checks and
// removes it. After each step the state of the host and of the attachment's namespace is
// recorded, and the records are compared. Random names and MACs are normalised.
//
// ALLOCNET_DIFFERENTIAL_TIME is how long random sequences are compared, with a new seed
// unless ALLOCNET_DIFFERENTIAL_SEED has one. Without a time it is a fixed number of sequences
// of a fixed seed.
package differential

import (
	"flag"
	"fmt"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/allocnet/allocnet/internal/sandbox"
)

// parallel is how many hosts there are: most of the time goes into waiting for the kernel to
// remove links.
const parallel = 6

func TestMain(m *testing.M) {
	if os.Getenv(workerMark) != "" {
		os.Exit(serve())
	}
	if os.Getenv(creationMark) != "" {
		os.Exit(create())
	}
	flag.Parse()
	if err := flag.Set("test.parallel", strconv.Itoa(parallel)); err != nil {
		panic(err)
	}
	os.Exit(sandbox.Main(func() int {
		defer stopWorkers()
		return m.Run()
	}, printSeed))
}

var (
	randomTime = duration("ALLOCNET_DIFFERENTIAL_TIME", 0)
	seed       = sandbox.Number("ALLOCNET_DIFFERENTIAL_SEED", defaultSeed())
)

func defaultSeed() uint64 {
	if randomTime == 0 {
		return 1
	}
	return uint64(time.Now().UnixNano())
}

func printSeed() error {
	fmt.Printf("ALLOCNET_DIFFERENTIAL_SEED=%d ALLOCNET_DIFFERENTIAL_TIME=%s\n", seed, randomTime)
	return nil
}

func duration(name string, otherwise time.Duration) time.Duration {
	text := sandbox.Variable(name)
	if text == "" {
		return otherwise
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		panic(fmt.Sprintf("%s=%s: want a duration such as 10m", name, text))
	}
	return d
}
