// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"fmt"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// quiet is for how long nothing is shown of what takes long.
	quiet = 2 * time.Second
	// tick is between changes of the line.
	tick = 500 * time.Millisecond
)

// await does something. On a terminal, a line at its end says what it is and for how long, if it
// takes longer than two seconds.
func await(what string, do func() error) error {
	if _, err := unix.IoctlGetTermios(int(os.Stdout.Fd()), unix.TCGETS); err != nil {
		return do()
	}
	var group sync.WaitGroup
	done := make(chan struct{})
	group.Go(func() {
		began, wait := time.Now(), quiet
		for {
			select {
			case <-done:
				if wait == tick {
					fmt.Print("\r\x1b[K")
				}
				return
			case <-time.After(wait):
				wait = tick
				fmt.Printf("\r\x1b[K… %s, %.0f s", what, time.Since(began).Seconds())
			}
		}
	})
	defer group.Wait()
	defer close(done)
	return do()
}
