// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package agent

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/allocnet/allocnet/internal/sandbox"
)

// block returns the code block of a document that follows an HTML comment.
func block(t *testing.T, document, remark, language string) string {
	t.Helper()
	found := regexp.MustCompile("(?s)<!-- " + remark + " -->\n```" + language + "\n(.*?)```").FindStringSubmatch(read(t, "../../docs/"+document))
	if found == nil {
		t.Fatalf("docs/%s has no block of %s that is %s", document, language, remark)
	}
	return found[1]
}

// TestConfigurationOfTheDocs: the example is valid, and has every setting.
func TestConfigurationOfTheDocs(t *testing.T) {
	h := newHost(t)
	text := block(t, "agent.md", "checked", "hcl")
	h.configure(text)
	if out, code := h.allocnet("agent", "--check-config"); code != 2 || !strings.Contains(out, "nomad: token_file: /etc/allocnet.d/nomad.token does not exist") {
		t.Errorf("the files that the example names do not exist: %d %s", code, out)
	}
	dir := t.TempDir()
	for _, sub := range []string{"etc/allocnet/networks", "etc/allocnet.d", "etc/nomad.d", "opt/cni/config", "opt/cni/bin"} {
		if err := os.MkdirAll(dir+"/"+sub, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, file := range []string{"etc/allocnet.d/nomad.token", "etc/allocnet.d/web.yml", "etc/nomad.d/ca.pem", "etc/nomad.d/client.pem", "etc/nomad.d/client-key.pem", "opt/cni/bin/allocnet-cni"} {
		sandbox.WriteFile(t, dir+"/"+file, "{}")
	}
	sandbox.WriteFile(t, dir+"/opt/cni/config/10-web.conflist", `{"cniVersion": "1.0.0", "name": "web", "plugins": [{"type": "bridge"}]}`)
	h.configure(regexp.MustCompile(`([":])(/(?:etc|opt)/)`).ReplaceAllString(text, "${1}"+dir+"${2}"))
	if out, code := h.allocnet("agent", "--check-config"); code != 0 {
		t.Error(out)
	}
	for _, name := range regexp.MustCompile(`hcl:"(\w+),(?:optional|block)"`).FindAllStringSubmatch(read(t, "../../agent/config/load.go"), -1) {
		if name[1] != "source" && name[1] != "node_id" && !regexp.MustCompile(`(?m)^\s*`+name[1]+`\s*[={]`).MatchString(text) {
			t.Errorf("%s is not documented", name[1])
		}
	}
}

func TestCurlOfTheDocs(t *testing.T) {
	h := newHost(t)
	h.start()
	cmd := exec.Command("bash", "-euo", "pipefail", "-c", block(t, "api.md", "tested", "sh"))
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), `"interface":"net7"`) {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestGoOfTheDocs(t *testing.T) {
	h := newHost(t)
	h.start()
	dir, err := os.MkdirTemp(".", "example") // within the module, whose packages it imports
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	sandbox.WriteFile(t, dir+"/main.go", block(t, "api.md", "tested", "go"))
	out, err := exec.Command("go", "run", "./"+dir).CombinedOutput()
	if err != nil || !strings.Contains(string(out), "data0 storage") {
		t.Errorf("%v\n%s", err, out)
	}
}
