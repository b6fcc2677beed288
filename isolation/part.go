// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package isolation

import (
	"iter"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/hashicorp/hcl/v2"

	"github.com/allocnet/allocnet/internal/hclfile"
)

// parts are the rules of the text that was read last, by the parts of it that have them: of thousands of rules few change at a time, and to read
// all takes longer than to have the kernel follow.
type parts struct {
	mu sync.Mutex
	// kept are the rules of each part, with lines from its beginning on.
	kept map[string][]rule
	// text is the whole of file, and whole are its rules: who follows a change reads it several times.
	file, text string
	whole      Rules
}

// latest are those of this process.
var latest parts

// parse reads a text part by part. ok is false if it has a mistake, or no rule.
func (p *parts) parse(file, text string) (r Rules, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.kept != nil && p.file == file && p.text == text {
		return p.whole, true
	}
	all := slices.Collect(partsOf(text))
	read, ok := p.readAll(file, all)
	if !ok {
		return Rules{}, false
	}
	r.File = file
	kept, names, lines := map[string][]rule{}, map[string]bool{}, 0
	for i, part := range all {
		for _, one := range read[i] {
			if names[one.name()] {
				return Rules{}, false
			}
			names[one.name()] = true
			r.add(one, lines)
		}
		kept[part] = read[i]
		lines += strings.Count(part, "\n")
	}
	if len(names) == 0 {
		return Rules{}, false
	}
	p.kept, p.file, p.text, p.whole = kept, file, text, r
	return r, true
}

// readAll returns the rules of parts, of which it reads those that are not kept, on all processors; ok is false if one has a mistake.
func (p *parts) readAll(file string, all []string) (read [][]rule, ok bool) {
	read = make([][]rule, len(all))
	var group sync.WaitGroup
	var isWrong atomic.Bool
	workers := runtime.GOMAXPROCS(0)
	for worker := range workers {
		group.Go(func() {
			for i := worker; i < len(all) && !isWrong.Load(); i += workers {
				rules, isKept := p.kept[all[i]]
				if !isKept {
					var ok bool
					if rules, ok = readPart(file, all[i]); !ok {
						isWrong.Store(true)
					}
				}
				read[i] = rules
			}
		})
	}
	group.Wait()
	return read, !isWrong.Load()
}

func (r rule) name() string {
	if r.allow != nil {
		return r.allow.Name
	}
	return r.egress.Name
}

// partsOf divides a text before each line that may begin a rule. What is a part of a comment or of a text is none by itself: parts that can all be read are what the
// whole is, since each ends outside of comments, texts and blocks.
func partsOf(text string) iter.Seq[string] {
	return func(yield func(string) bool) {
		begin, at := 0, 0
		for line := range strings.Lines(text) {
			if at > begin && (strings.HasPrefix(line, "allow ") || strings.HasPrefix(line, "egress ")) {
				if !yield(text[begin:at]) {
					return
				}
				begin = at
			}
			at += len(line)
		}
		yield(text[begin:])
	}
}

func readPart(file, part string) ([]rule, bool) {
	if rules, ok := readPlain(part); ok {
		return rules, true
	}
	return readHCL(file, part)
}

func readHCL(file, part string) ([]rule, bool) {
	body, err := hclfile.Parse(file, []byte(part))
	if err != nil {
		return nil, false
	}
	v := values{names: map[string]hcl.Range{}}
	rules := v.rules(body)
	return rules, v.Err() == nil
}
