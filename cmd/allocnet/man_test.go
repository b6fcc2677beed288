// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/allocnet/allocnet/cmd/allocnet/cli"
	"github.com/allocnet/allocnet/cmd/allocnet/manual"
)

// TestMan: each command has a page with its flags, and the pages of docs/ are written.
func TestMan(t *testing.T) {
	t.Setenv("SOURCE_DATE_EPOCH", "1700000000")
	dir := t.TempDir()
	if code := execute(t.Context(), []string{"man", dir}, io.Discard, io.Discard); code != 0 {
		t.Fatalf("exit code %d", code)
	}
	requirePage(t, dir+"/man5/allocnet-agent.hcl.5", ".TH ALLOCNET-AGENT.HCL 5 2023-11-14", `\fBjob_networks\fR`, `\fBdrain_timeout\fR`, ".SS Block multi")
	requirePage(t, dir+"/man5/allocnet-isolation.hcl.5", ".TH ALLOCNET-ISOLATION.HCL 5 2023-11-14", `\fBcidrs\fR`, ".SH WHICH ONE DECIDES", `allow "web reaches db"`)
	requirePage(t, dir+"/man1/allocnet-policy-test.1", "exit code is 0 if it is allowed, and 4 if it is denied", `\fB\-\-rules string\fR`)
	requirePage(t, dir+"/man8/allocnet-ipam.8", ".TH ALLOCNET-IPAM 8 2023-11-14", `\fBblockSize\fR`, ".SH REQUESTS")
	requirePage(t, dir+"/man8/allocnet-cni.8", ".TH ALLOCNET-CNI 8 2023-11-14", `\fBpassArgs\fR`, `\fBdefault\-route\fR`, ".SH TROUBLESHOOTING")
	requirePage(t, dir+"/man1/allocnet-map.1", `\-\-watch[=duration]`, "(without a value: 2s)")
	root := newRoot(&cli.Settings{})
	root.InitDefaultHelpCmd()
	pages := 0
	var require func(cmd *cobra.Command)
	require = func(cmd *cobra.Command) {
		words := []string{cmd.Short, ".SH SYNOPSIS", ".SH DESCRIPTION", ".SH SEE ALSO"}
		if flag := cmd.Flags().Lookup("config"); flag != nil {
			words = append(words, `\fB\-\-config`)
		}
		requirePage(t, filepath.Join(dir, "man1", manual.PageName(cmd)+".1"), words...)
		for _, child := range manual.Visible(cmd) {
			pages++
			require(child)
		}
	}
	require(root)
	if pages < 15 {
		t.Errorf("only %d commands", pages)
	}
	t.Setenv("SOURCE_DATE_EPOCH", "today")
	if code := execute(t.Context(), []string{"man", dir}, io.Discard, io.Discard); code != 2 {
		t.Errorf("an invalid SOURCE_DATE_EPOCH: exit code %d, want 2", code)
	}
}

func requirePage(t *testing.T, path string, words ...string) {
	t.Helper()
	page, err := os.ReadFile(path)
	if err != nil {
		t.Error(err)
	}
	text := strings.Join(strings.Fields(string(page)), " ")
	for _, word := range words {
		if !strings.Contains(text, word) {
			t.Errorf("%s: no %q", path, word)
		}
	}
}
