// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package manpage

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestPage(t *testing.T) {
	p := New("allocnet-run", 1, "Run a command", "allocnet 0.1.0", time.Unix(1700000000, 0))
	p.Section("Description")
	p.Text(".hidden is a word with \\.\nIt goes on.\n\nCodes:\n  0  done\n  1  -x\n\nLast.")
	p.Section("Options")
	p.Item("--dry-run", strings.Repeat("words ", 20))
	p.Item("-q", "")
	const want = `.TH ALLOCNET-RUN 1 2023-11-14 "allocnet 0.1.0"
.SH NAME
allocnet-run \- Run a command
.SH DESCRIPTION
\&.hidden is a word with \e. It goes on.
.PP
Codes:
.RS 4
.nf

0  done
1  \-x
.fi
.RE
.PP
Last.
.SH OPTIONS
.TP
\fB\-\-dry\-run\fR
words words words words words words words words words words words words words
words words words words words words words
.TP
\fB\-q\fR
\&
`
	if diff := cmp.Diff(want, string(p.Bytes())); diff != "" {
		t.Error(diff)
	}
}

const document = "# Title\n\nText.\n\n## One\n\n<!-- checked -->\n```hcl\n## no heading\na {\n  b = \"\\n\"\n}\n```\n\n" +
	"See [the page](page.md#x) for `--all` and **more**:\n\n- first\n  goes on\n\n  ```sh\n  run\n  ```\n\n- second\n\n" +
	"| key | meaning | default |\n| --- | --- | --- |\n| `a-b` | a thing. | `1` |\n| `c` | another | |\n\n### Deeper\n\nEnd.\n\n## Two\n\nOther.\n"

func TestMarkdown(t *testing.T) {
	section, err := Extract(document, "One")
	if err != nil || strings.Contains(section, "Text.") || strings.Contains(section, "Other.") {
		t.Fatalf("%v: %s", err, section)
	}
	var p Page
	p.Markdown(section)
	const want = `.SH ONE
.RS 4
.nf
## no heading
a {
  b = "\en"
}
.fi
.RE
.PP
See the page for \fB\-\-all\fR and \fBmore\fR:
.IP \(bu 2
first goes on
.RS 4
.nf

run
.fi
.RE
.IP \(bu 2
second
.TP
\fBa\-b\fR
a thing. Default: \fB1\fR.
.TP
\fBc\fR
another.
.SS Deeper
End.
`
	if diff := cmp.Diff(want, string(p.Bytes())); diff != "" {
		t.Error(diff)
	}
	if _, err := Extract(document, "Three"); err == nil {
		t.Error("a section that does not exist was found")
	}
}
