// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package cleanup

import "github.com/allocnet/allocnet/internal/resolvconf"

// scanResolvConf lists the files that allocnet wrote for network namespaces, which have the
// IDs of their allocations as names. Files of others are none.
func scanResolvConf(dir string) (scanResult, error) {
	var found scanResult
	files, err := resolvconf.List(dir)
	for _, f := range files {
		found.Objects = append(found.Objects, Object{
			Kind: ResolvConf, Owner: Owner{Allocation: f.Name, ContainerID: f.Name}, Where: f.Path(), provesDeath: true, resolvConf: &f,
		})
	}
	return found, err
}
