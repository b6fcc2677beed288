// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package isolation

import (
	"reflect"
	"testing"
)

// plainTexts are rules as most are written.
var plainTexts = []string{
	"allow \"web reaches db\" {\n  from {\n    namespace = \"prod\"\n    job       = \"web\"\n  }\n  to { job = \"db\" }\n  ports = [\"5432/tcp\", \"53/udp\"]\n}\n",
	"\n# a comment\negress \"e\" {\n\tfrom { group = \"g-*\" }\n\t// another\n\tto {\n\t\tcidrs = [\"10.0.0.0/8\", \"fd00::/8\"]\n\t}\n\tdns = true\n}\n\n",
	"allow \"h\" {\n  from { host = true }\n  to { network = \"*\" }\n}",
	"egress \"none\" {\n  from { network = \"n\" }\n}\n# the end",
}

// TestPlain: what is read as a plain rule is what HCL reads, whatever is written in place of a byte, or before it. What HCL does not read is not plain.
func TestPlain(t *testing.T) {
	requireSame := func(text string) (isPlain bool) {
		rules, isPlain := readPlain(text)
		if want, ok := readHCL("f", text); isPlain && (!ok || !reflect.DeepEqual(rules, want)) {
			t.Errorf("%q is %+v, and by HCL %+v, %t", text, rules, want, ok)
		}
		return isPlain
	}
	for _, text := range plainTexts {
		if !requireSame(text) {
			t.Errorf("not plain: %q", text)
		}
		for i := range text {
			for _, c := range []string{"", "\"", "{", "}", "[", "]", "=", ",", " ", "\n", "#", "/", "*", "a", "!", "\\", "$", "%", "0", "\r", "\u00e9", "{}", "\"\"", "{\n", "}\n", "a = true\n", "dns = false\n", "//", "<<a\n"} {
				requireSame(text[:i] + c + text[i+1:])
				requireSame(text[:i] + c + text[i:])
			}
		}
	}
	for _, text := range []string{"", "\n", "# nothing", plainTexts[0] + plainTexts[2], "deny" + plainTexts[2][5:], plainTexts[2][:30], "allow {\n}\n", "allow \"x\"\n", "\"allow\" \"x\" {\n}\n"} {
		if requireSame(text) {
			t.Errorf("plain: %q", text)
		}
	}
}

// FuzzPlain is TestPlain for any text.
func FuzzPlain(f *testing.F) {
	for _, text := range plainTexts {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		rules, isPlain := readPlain(text)
		if want, ok := readHCL("f", text); isPlain && (!ok || !reflect.DeepEqual(rules, want)) {
			t.Errorf("%q is %+v, and by HCL %+v, %t", text, rules, want, ok)
		}
	})
}
