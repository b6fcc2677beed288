// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package doctor

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/allocnet/allocnet/cniconf"
)

// script writes an executable shell script.
func script(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+text+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
}

func TestPlugins(t *testing.T) {
	dir := t.TempDir()
	answer := func(versions string) string {
		return `cat > /dev/null; echo '{"cniVersion": "1.0.0", "supportedVersions": [` + versions + `]}'`
	}
	script(t, filepath.Join(dir, "good"), answer(`"0.4.0", "1.0.0", "1.1.0"`))
	script(t, filepath.Join(dir, "old"), answer(`"0.3.1"`))
	script(t, filepath.Join(dir, "crashing"), "exit 3")
	files := map[string]string{}
	for name, plugin := range map[string]string{"a": "good", "b": "good", "c": "old", "d": "crashing", "e": "nowhere"} {
		files[name+".conflist"] = fmt.Sprintf(`{"cniVersion": "1.0.0", "name": %q, "plugins": [{"type": %q}]}`, name, plugin)
	}
	networks := load(t, files)
	r := &Report{}
	(&Doctor{PluginDirs: []string{dir}}).plugins(t.Context(), r, networks)
	var got []string
	for _, f := range r.Findings {
		got = append(got, f.Problem+" => "+f.Fix)
	}
	for i, words := range [][]string{
		{"plugin supports CNI up to 0.3.1: it has no CHECK, GC and STATUS", "install a newer old"},
		{`network "c": plugin old does not support cniVersion 1.0.0, only 0.3.1`, "use one of these"},
		{"plugin fails at VERSION: ", "reinstall crashing"},
		{`network "e": plugin "nowhere" is not installed`, "install nowhere into one of " + dir},
	} {
		for _, word := range words {
			if len(got) != 4 || !strings.Contains(got[i], word) {
				t.Errorf("findings %q, want %q at %d", got, word, i)
			}
		}
	}
}

// TestLackingPlugins: one finding for a network, which begins with the reason for which it needs plugins.
func TestLackingPlugins(t *testing.T) {
	dir := t.TempDir()
	script(t, filepath.Join(dir, "other"), "exit 3")
	r := &Report{}
	mistaken := func(*cniconf.Network) error {
		return errors.New(`plugin "portmap": conditionsV4 is in the syntax of nft`)
	}
	networks := load(t, map[string]string{"a.conflist": `{"cniVersion": "1.0.0", "name": "a", "plugins": [{"type": "bridge"}, {"type": "portmap"}]}`})
	(&Doctor{PluginDirs: []string{dir}, WhyPlugins: mistaken}).plugins(t.Context(), r, networks)
	requireProblems(t, r, `network "a": plugin "portmap": conditionsV4 is in the syntax of nft; therefore its plugins are executed: `+
		`plugin "bridge" is not installed, plugin "portmap" is not installed`)
}
