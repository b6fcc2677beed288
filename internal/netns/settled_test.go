// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package netns

import (
	"errors"
	"testing"

	vishns "github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// TestSettled: a process that ends while its namespace is opened is missing, not an error.
func TestSettled(t *testing.T) {
	missing := &MissingError{"/proc/7/ns/net", "the path does not exist"}
	for _, test := range []struct {
		answers []error
		want    error
		name    string
	}{
		{[]error{unix.EACCES, missing}, ErrMissing, "ends meanwhile"},
		{[]error{unix.EACCES, unix.EACCES}, unix.EACCES, "may not be opened"},
		{[]error{unix.EACCES, nil}, nil, "can be opened again"},
		{[]error{missing}, ErrMissing, "missing"},
		{[]error{unix.EMFILE}, unix.EMFILE, "another error"},
		{[]error{nil}, nil, "there"},
	} {
		calls := 0
		_, err := settled(func() (vishns.NsHandle, error) { calls++; return 0, test.answers[calls-1] })
		if !errors.Is(err, test.want) || calls != len(test.answers) {
			t.Errorf("%s: %v after %d calls, want %v", test.name, err, calls, test.want)
		}
	}
}
