// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package cluster

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
)

// pluginCalls returns the processes of CNI calls on the machines of the cluster.
func (s *scene) pluginCalls() (pids []int, err error) {
	files, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		dir := filepath.Dir(file)
		environ, err := os.ReadFile(file)
		if err != nil || !bytes.Contains(environ, []byte("CNI_CONTAINERID=")) || !lab.Has(dir) {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(dir))
		if err != nil {
			return nil, err
		}
		pids = append(pids, pid)
	}
	return pids, nil
}
