// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package inprocess

import (
	"bytes"
	"fmt"
	"os/exec"
)

// lockTimeout is how many seconds iptables waits for another process that changes rules.
const lockTimeout = 30

// restore executes a transaction; an empty one is not executed.
func (h *iptablesHost) restore(t *iptablesTransaction) error {
	if t.err != nil || t.text.Len() == 0 {
		return t.err
	}
	program := h.kind.program(h.family, "-restore")
	cmd := exec.CommandContext(h.ctx, program, "--noflush", fmt.Sprintf("--wait=%d", lockTimeout))
	cmd.Stdin = bytes.NewReader(t.text.Bytes())
	cmd.ExtraFiles = h.holds
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w: %s", program, err, bytes.TrimSpace(out))
	}
	return nil
}

// restoreTable executes the lines of one table.
func (h *iptablesHost) restoreTable(t *iptablesTransaction, table string) error {
	whole := &iptablesTransaction{err: t.err}
	whole.begin(table)
	whole.text.Write(t.text.Bytes())
	whole.commit()
	return h.restore(whole)
}
