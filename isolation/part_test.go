// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package isolation

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
)

// textOf is a rule in the text of a file.
func textOf(name, port string) string {
	return fmt.Sprintf("allow %q {\n  from { network = \"a\" }\n  to { network = \"b\" }\n  ports = [%q]\n}\n", name, port)
}

// TestParts: what is read part by part is what the whole is, whatever was read before, with the same lines. What has a mistake is not read so, nor are rules in comments and
// texts.
func TestParts(t *testing.T) {
	one, two := textOf("one", "80/tcp"), textOf("two", "81/tcp")
	texts := []string{
		one, one + two, two + one, "# first\n\n" + one + "\n\n# second\n" + two, one + textOf("two", "82/tcp"), one + one, one + textOf("two", "x"), one + "allow \"three\" {\n", "",
		"# nothing\n", "/*\n" + one + "*/\n" + two, "/*\n" + one + two, one + "/*" + two + "*/", strings.ReplaceAll(one+two, "\n", "\r\n"), one[:len(one)-1] + " // " + two, one + " " + two,
		one + "x = <<END\n" + two + "END\n", "allow \"a\" {\n  from { network = <<END\n" + two + "END\n }\n  to { network = \"b\" }\n}\n", example, example + one, one + "x = 1\n" + two,
		"allow \"four\" {\n  from { network = \"a\" }\n  to {\nallow \"five\" {}\n}\n}\n", "\ufeff" + one, one + "\x00" + two, one + "egress \"e\" {\n  from { job = \"x\" }\n}" + two,
	}
	var p parts
	for _, before := range texts {
		for _, text := range texts {
			_, _ = p.parse("f", before)
			want, err := parseWhole("f", []byte(text))
			got, ok := p.parse("f", text)
			isPlain := err == nil && !strings.Contains(text, "/*") && !strings.Contains(text, "<<")
			if ok && (err != nil || !reflect.DeepEqual(got, want)) || isPlain && !ok {
				t.Errorf("after\n%s\n%s\nis %+v, %t, want %+v, %v", before, text, got, ok, want, err)
			}
		}
	}
}

// TestPartsAreKept: only parts that have changed are read.
func TestPartsAreKept(t *testing.T) {
	var p parts
	one, two := textOf("one", "80/tcp"), textOf("two", "81/tcp")
	if _, ok := p.parse("f", one+two); !ok || len(p.kept) != 2 {
		t.Fatalf("kept are %v", p.kept)
	}
	p.kept[two][0].allow.Name = "kept"
	for _, text := range []string{"\n" + one + two, "# one\n" + textOf("one", "82/tcp") + two} {
		if r, ok := p.parse("f", text); !ok || r.Allow[0].Name != "one" || r.Allow[1].Name != "kept" || r.Allow[1].Line != 7 {
			t.Errorf("%+v, %t, want the second one as it was kept", r, ok)
		}
	}
	r, _ := p.parse("f", one)
	if again, ok := p.parse("f", one); !ok || &again.Allow[0] != &r.Allow[0] {
		t.Errorf("the same text: %+v, %t, want the same rules", again, ok)
	}
	if other, ok := p.parse("g", one); !ok || other.File != "g" {
		t.Errorf("the same text of another file: %+v, %t", other, ok)
	}
	if r, ok := p.parse("f", textOf("one", "82/tcp")+textOf("two", "82/tcp")); !ok || r.Allow[1].Name != "two" || len(p.kept) != 2 {
		t.Errorf("%+v, %t, kept are %d, want what is read anew", r, ok, len(p.kept))
	}
}

// BenchmarkParse reads 10,000 rules: all of them, as HCL and by parts, and one that has changed.
func BenchmarkParse(b *testing.B) {
	var text strings.Builder
	for i := range 10000 {
		text.WriteString(textOf(fmt.Sprint("rule ", i), "80/tcp"))
	}
	texts := []string{text.String(), strings.Replace(text.String(), "80/tcp", "81/tcp", 1)}
	b.Run("whole", func(b *testing.B) {
		for b.Loop() {
			if _, err := parseWhole("f", []byte(texts[0])); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("all", func(b *testing.B) {
		for b.Loop() {
			if _, ok := new(parts).parse("f", texts[0]); !ok {
				b.Fatal("it is not read")
			}
		}
	})
	b.Run("one", func(b *testing.B) {
		var p parts
		for i := 0; b.Loop(); i++ {
			if _, ok := p.parse("f", texts[i%2]); !ok {
				b.Fatal("it is not read")
			}
		}
	})
}
