// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package hostmap

// styleSheet is that of an SVG. Some programs that show SVG have no variables, so the colours for
// a dark background repeat the selectors: t are texts and joints of a network, l its lines.
const styleSheet = `
text{font:12px ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono","Liberation Mono",monospace;fill:#1f2328;white-space:pre}
path{fill:none;stroke-width:2}
.page{fill:#fff}.card{fill:#f6f8fa;stroke:#d0d7de}.bar{fill:#d0d7de}
text.title{font-size:15px;font-weight:bold}text.b{font-weight:bold}
.dim{fill:#57606a}.ok{fill:#116329}.warn{fill:#7d4e00}.bad{fill:#b31d28}
.t0{fill:#0550ae}.t1{fill:#8250df}.t2{fill:#0e6d6d}.t3{fill:#953800}.t4{fill:#a5307c}.t5{fill:#44546a}
.l0{stroke:#0550ae}.l1{stroke:#8250df}.l2{stroke:#0e6d6d}.l3{stroke:#953800}.l4{stroke:#a5307c}.l5{stroke:#44546a}
@media(prefers-color-scheme:dark){
text{fill:#e6edf3}
.page{fill:#0d1117}.card{fill:#161b22;stroke:#30363d}.bar{fill:#30363d}
.dim{fill:#9ba6b2}.ok{fill:#56d364}.warn{fill:#e3b341}.bad{fill:#ff8077}
.t0{fill:#6cb6ff}.t1{fill:#d2a8ff}.t2{fill:#4fd1c5}.t3{fill:#f0a35e}.t4{fill:#ff9bce}.t5{fill:#b6c2cf}
.l0{stroke:#6cb6ff}.l1{stroke:#d2a8ff}.l2{stroke:#4fd1c5}.l3{stroke:#f0a35e}.l4{stroke:#ff9bce}.l5{stroke:#b6c2cf}
}
`
