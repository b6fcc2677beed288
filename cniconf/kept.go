// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package cniconf

import "sync"

// networks are those of the files of a directory, by path.
type networks map[string]*Network

// keptNetworks are the networks of directories as they were read last. Each catalog reads all files, and parses those with another
// content than then. To trust a file's times instead would spare little, and an old rule could be used: some file systems
// have times of seconds, or of their server's cache.
type keptNetworks struct {
	mu     sync.Mutex
	inDirs map[string]networks
}

// kept are those of this process: what a file says does not depend on the reader.
var kept keptNetworks

func (k *keptNetworks) in(dir string) networks {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.inDirs[dir]
}

func (k *keptNetworks) put(dir string, read networks) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.inDirs == nil {
		k.inDirs = map[string]networks{}
	}
	k.inDirs[dir] = read
}
