// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package daemon

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/allocnet/allocnet/agent/api"
)

// TestWithoutSystemd: no status is made that no one gets.
func TestWithoutSystemd(t *testing.T) {
	t.Setenv("NOTIFY_SOCKET", "")
	notifier{}.run(t.Context(), filepath.Join(t.TempDir(), "none.sock"), hclog.NewNullLogger()) // which would not end, and log
}

// TestNextStatus: the status line takes a hundredth of the time, and is no older than a minute, also after it took until its deadline.
func TestNextStatus(t *testing.T) {
	began := time.Now()
	for took, want := range map[time.Duration]time.Duration{0: 0, 50 * time.Millisecond: 5 * time.Second, probeTimeout: time.Minute} {
		if got := nextStatus(began, took).Sub(began); got != want {
			t.Errorf("it took %s, and is made again after %s, want %s", took, got, want)
		}
	}
}

// TestWatchdogReadsNoRecord: systemd gets the watchdog notification although the
// allocations cannot be listed.
func TestWatchdogReadsNoRecord(t *testing.T) {
	mux := http.NewServeMux()
	mux.HandleFunc(api.PathHealth, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(`{"status":"alive"}`)) })
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusInternalServerError)
		_, _ = w.Write([]byte(`{"code":999,"msg":"format version 2"}`))
	})
	dir := t.TempDir()
	agent := httptest.NewUnstartedServer(mux)
	var err error
	if agent.Listener, err = net.Listen("unix", filepath.Join(dir, "agent.sock")); err != nil {
		t.Fatal(err)
	}
	agent.Start()
	defer agent.Close()
	systemd, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: filepath.Join(dir, "notify"), Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer systemd.Close()
	t.Setenv("NOTIFY_SOCKET", systemd.LocalAddr().String())
	t.Setenv("WATCHDOG_USEC", "30000")
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		notifier{}.run(ctx, agent.Listener.Addr().String(), hclog.NewNullLogger())
		close(ended)
	}()
	var heard []string
	buffer := make([]byte, 4096)
	for round := 0; round < 3; { // the first is of the start
		n, err := systemd.Read(buffer)
		if err != nil {
			t.Fatal(err)
		}
		heard = append(heard, string(buffer[:n]))
		if string(buffer[:n]) == "WATCHDOG=1" {
			round++
		}
	}
	stop()
	<-ended
	if all := strings.Join(heard, "\n"); !strings.Contains(all, "READY=1") || !strings.Contains(all, "the allocations cannot be listed: format version 2") {
		t.Errorf("systemd heard:\n%s", all)
	}
}
