// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Package cniconf reads the named CNI networks of a conf directory.
//
// A network is a .conflist, .conf or .json file, known by the name in it.
// Files are read in lexical order and the first of a name wins. A file that
// cannot be used is reported and hides nothing.
package cniconf
