// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package sandbox

import (
	"fmt"
	"strconv"
)

// Number returns the number in an environment variable, or otherwise if it is not set. It
// panics if the variable has another text.
func Number(name string, otherwise uint64) uint64 {
	text := Variable(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		panic(fmt.Sprintf("%s=%s: want a number of 0 or more", name, text))
	}
	return n
}
