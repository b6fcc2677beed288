// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package cluster

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
)

// pluginCalls returns the processes of CNI calls on all machines.
func pluginCalls() (pids []int, err error) {
	files, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		environ, err := os.ReadFile(file)
		if err != nil || !bytes.Contains(environ, []byte("CNI_CONTAINERID=")) {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		if err != nil {
			return nil, err
		}
		pids = append(pids, pid)
	}
	return pids, nil
}
