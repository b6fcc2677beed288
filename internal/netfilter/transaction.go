// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package netfilter

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// LockWait is how many seconds iptables waits for another process that changes rules.
const LockWait = 30

// Transaction is the input of iptables-restore: lines of a table, or tables that are made of such. The zero value is empty.
type Transaction struct {
	text strings.Builder
	err  error
}

func (t *Transaction) String() string { return t.text.String() }

// Fail makes the transaction one that is not executed; the first error is that of Restore.
func (t *Transaction) Fail(err error) {
	if t.err == nil {
		t.err = err
	}
}

// Table adds the lines of a table; none are no table.
func (t *Transaction) Table(name string, parts ...*Transaction) {
	var lines strings.Builder
	for _, part := range parts {
		t.Fail(part.err)
		lines.WriteString(part.text.String())
	}
	if lines.Len() > 0 {
		fmt.Fprintf(&t.text, "*%s\n%sCOMMIT\n", name, lines.String())
	}
}

// Line adds what to do with a chain, as iptables(8) calls it, such as -A with a rule.
func (t *Transaction) Line(verb, chain string, args ...string) {
	t.text.WriteString(verb)
	for _, arg := range append([]string{chain}, args...) {
		t.text.WriteByte(' ')
		t.text.WriteString(t.quote(arg))
	}
	t.text.WriteByte('\n')
}

// Empty adds a chain without rules: it is made where it is missing, and else emptied.
func (t *Transaction) Empty(chain string) { fmt.Fprintf(&t.text, ":%s - [0:0]\n", chain) }

// Delete deletes a rule as iptables-save or iptables -S printed it, from -A on.
func (t *Transaction) Delete(rule string) {
	fmt.Fprintf(&t.text, "-D%s\n", strings.TrimPrefix(rule, "-A"))
}

// Unreadable are the characters that iptables-restore cannot read in an argument.
const Unreadable = "\n\r\x00"

// quote returns an argument as iptables-restore reads it, and Split. One that it cannot read makes the transaction fail.
func (t *Transaction) quote(arg string) string {
	if strings.ContainsAny(arg, Unreadable) {
		t.Fail(fmt.Errorf("iptables-restore cannot read the argument %q", arg))
	}
	if arg != "" && !strings.ContainsAny(arg, " \t\"\\'#") {
		return arg
	}
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(arg) + `"`
}

// Restore has a program, such as ip6tables-nft, execute the transaction: all of a table or nothing of it, one table after
// another. Run is that of a Runner. An empty transaction is not executed.
func (t *Transaction) Restore(ctx context.Context, run func(ctx context.Context, stdin, name string, args ...string) (string, error), program string) error {
	if t.err != nil || t.text.Len() == 0 {
		return t.err
	}
	_, err := run(ctx, t.text.String(), program+"-restore", "--noflush", fmt.Sprintf("--wait=%d", LockWait))
	return err
}

// Runner executes programs that list or change rules.
type Runner struct {
	// Holds are files that a program inherits. Their locks tell, after kill -9 of this process, that it still runs. Without
	// them it ends with this process: what it changed later would be seen by no one.
	Holds []*os.File
}

// Run executes a program until the context ends, and returns what it prints.
func (r Runner) Run(ctx context.Context, stdin, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.WaitDelay = time.Second // a process that it has started may keep the output open
	cmd.ExtraFiles = r.Holds
	if len(r.Holds) == 0 {
		runtime.LockOSThread() // Pdeathsig is about the thread that starts the program
		defer runtime.UnlockOSThread()
		cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	}
	var stdout, stderr bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(stdin), &stdout, &stderr
	if err := cmd.Run(); err != nil && (!errors.Is(err, exec.ErrWaitDelay) || ctx.Err() != nil) {
		says := cmp.Or(strings.TrimSpace(stderr.String()), strings.TrimSpace(stdout.String()))
		return "", fmt.Errorf("%s: %w: %s", name, cmp.Or(context.Cause(ctx), err), says)
	}
	return stdout.String(), nil
}
