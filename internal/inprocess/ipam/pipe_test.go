// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package ipam

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/internal/inprocess/plugin"
)

// TestPipes: a call ends though one of its files is a pipe without a writer, as that of a plugin
// does, which is killed. A pipe among the leases is none.
func TestPipes(t *testing.T) {
	for pipe, want := range map[string]string{
		"resolv.conf":          "is not a regular file",
		"n/10.50.0.9":          "",
		"n/last_reserved_ip.0": "n/last_reserved_ip.0",
		"n/lock":               "is not a regular file",
		".n.owners":            "",
	} {
		t.Run(pipe, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, pipe)
			if err := errors.Join(os.Mkdir(dir+"/n", 0o755), os.WriteFile(dir+"/resolv.conf", nil, 0o600)); err != nil {
				t.Fatal(err)
			}
			_ = os.Remove(path)
			if err := unix.Mkfifo(path, 0o600); err != nil {
				t.Fatal(err)
			}
			conf := fmt.Appendf(nil, `{"cniVersion": "1.0.0", "name": "n", "type": "ptp", "ipam": {"type": "host-local", "subnet": "10.50.0.0/24", "dataDir": %[1]q, "resolvConf": "%[1]s/resolv.conf"}}`, dir)
			done := make(chan error, 1)
			go func() {
				_, err := addHostLocal(&plugin.Call{Ctx: t.Context(), ContainerID: "c", IfName: "eth0", Network: "n", Config: conf})
				done <- err
			}()
			select {
			case err := <-done:
				if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), path)) {
					t.Errorf("got the error %v, want one with %q", err, want)
				}
			case <-time.After(5 * time.Second):
				t.Fatal("the call waits for the pipe")
			}
		})
	}
}
