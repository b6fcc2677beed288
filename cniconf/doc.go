// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Package cniconf reads the named networks of CNI configuration directories.
//
// A network is a .conflist, .conf or .json file, and has the name that the file
// says. Files are read in lexical order; of several with one name the first is used.
// A file that cannot be used is reported, and keeps others from being used only where
// it may have rules for the same network.
package cniconf
