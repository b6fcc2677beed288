// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package doctor

import (
	"strings"
	"testing"
	"time"
)

// TestManagerThatHangs: the program of a manager that does not answer ends.
func TestManagerThatHangs(t *testing.T) {
	limit := managerTimeout
	t.Cleanup(func() { managerTimeout = limit })
	managerTimeout = time.Millisecond
	if _, err := outputOf(t.Context())([]string{"sleep", "300"}); err == nil || !strings.Contains(err.Error(), "no answer in 1ms") {
		t.Errorf("the error is %v", err)
	}
}
