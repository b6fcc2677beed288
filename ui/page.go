// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package ui

import (
	"bytes"
	"context"
	"embed"
	"errors"
	"fmt"
	"html/template"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/allocnet/allocnet/agent/api"
	"github.com/allocnet/allocnet/allocation"
	"github.com/allocnet/allocnet/internal/errdefs"
	"github.com/allocnet/allocnet/internal/texts"
)

//go:embed templates
var templates embed.FS

// parsed returns the templates of all pages; each page is "content" of the layout. They are parsed for the first page:
// that is a twentieth of the time that any command needs to start.
var parsed = sync.OnceValue(func() *template.Template {
	return template.Must(template.New("").Funcs(functions).ParseFS(templates, "templates/*.html"))
})

// agentTimeout bounds what a page waits for the agent.
const agentTimeout = 10 * time.Second

type content struct {
	template, title string
	data            any
}

func (s *Server) page(show func(context.Context, *http.Request) (content, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		ctx, stop := context.WithTimeout(r.Context(), agentTimeout)
		defer stop()
		version, _ := s.feed.next()
		shown, err := show(ctx, r)
		status := http.StatusOK
		if err != nil {
			status = statusOf(err)
			title := "The agent does not say"
			if status == http.StatusNotFound {
				title = "Not found"
			}
			shown = content{"failed", title, err.Error()}
		}
		s.render(w, status, shown.template, version, &shown)
	}
}

func statusOf(err error) int {
	var refused *api.Error
	switch {
	case errdefs.Of(err) == errdefs.NotFound:
		return http.StatusNotFound
	case errors.As(err, &refused) && refused.Status < http.StatusInternalServerError:
		return refused.Status
	}
	return http.StatusBadGateway
}

type layout struct {
	Host, Base, Title, Page string
	Now                     time.Time
	// Version is that of the feed before the page was made.
	Version uint64
	// Allocations and Problems are how many there are, as the feed has counted them; 0 also if that is not known.
	Allocations, Problems int
	// Every is after how many seconds the page loads itself again without an event. 0: it does not.
	Every int
	Data  any
}

// render writes a page of a version; shown is nil for one without a session.
func (s *Server) render(w http.ResponseWriter, status int, name string, version uint64, shown *content) {
	page := layout{Host: s.config.Host, Base: s.base, Page: name, Now: s.now(), Version: version}
	if shown == nil && name != "enter" {
		page.Base = "" // which no other has to know
	}
	if shown != nil {
		page.Title, page.Data = shown.title, shown.data
		page.Allocations, page.Problems = s.feed.counts()
		if name == "allocation" {
			page.Every = trafficEvery
		}
	}
	var out bytes.Buffer
	if err := parsed().ExecuteTemplate(&out, name, page); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write(bytes.Map(visible, out.Bytes())) // the browser is gone
}

// visible replaces characters that change how those around them are shown: the names in a
// page are not all trusted.
func visible(r rune) rune {
	if unicode.Is(unicode.Bidi_Control, r) || unicode.IsControl(r) && r != '\n' {
		return unicode.ReplacementChar
	}
	return r
}

var functions = template.FuncMap{
	"ago": ago, "short": short, "since": func(now, t time.Time) string { return ago(now.Sub(t)) }, "count": texts.Counted, "join": strings.Join,
	"family":       func(name string) string { return strings.Replace(name, "ipv", "IPv", 1) },
	"span":         func(first, last time.Time) string { return last.Sub(first).Round(time.Second).String() },
	"milliseconds": func(seconds float64) string { return fmt.Sprintf("%.3g ms", seconds*1000) },
	"duration":     duration,
	"stamp":        func(t time.Time) string { return t.Local().Format("2006-01-02 15:04:05 MST") },
	"machine":      func(t time.Time) string { return t.UTC().Format(time.RFC3339) },
	"clock":        func(t time.Time) string { return t.Local().Format("15:04:05") },
	"bytes":        func(n uint64) string { return bytesText(float64(n)) }, "perSecond": func(n float64) string { return bytesText(n) + "/s" },
	"amount": amount, "args": func(page layout, data any) args { return args{page, data} },
	"searchForm": func(action, query, label, example string) searchForm {
		return searchForm{action, query, label, example}
	},
	"ranges": allocation.Ranges, "usageBar": usageBar, "addressBar": addressBar, "reach": reach, "indented": indented,
}

type args struct {
	Page layout
	Data any
}

type searchForm struct{ Action, Query, Label, Example string }

// ago is an age, in its largest unit.
func ago(d time.Duration) string {
	switch {
	case d < 5*time.Second:
		return "just now"
	case d < time.Minute:
		return fmt.Sprintf("%d s ago", d/time.Second)
	case d < time.Hour:
		return fmt.Sprintf("%d min ago", d/time.Minute)
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h ago", d/time.Hour)
	}
	return fmt.Sprintf("%d d ago", d/(24*time.Hour))
}

// duration is a time in seconds as people say it.
func duration(seconds float64) string {
	if seconds < 1 {
		return fmt.Sprintf("%.0f ms", seconds*1000)
	}
	return fmt.Sprintf("%.3g s", seconds)
}

// short is an ID of Nomad without what tells it apart only from a few others.
func short(id string) string {
	const length, shown = 36, 8
	if len(id) != length || id[shown] != '-' || id[13] != '-' || id[18] != '-' || id[23] != '-' {
		return id
	}
	return id[:shown]
}

// amount is a number with at most seven digits, as that of addresses of a subnet.
func amount(n float64) string {
	if n < 1e7 {
		return strconv.FormatFloat(n, 'f', 0, 64)
	}
	digits, exponent, _ := strings.Cut(fmt.Sprintf("%.1e", n), "e+")
	return digits + " × 10" + superscript.Replace(strings.TrimPrefix(exponent, "0"))
}

var superscript = strings.NewReplacer("0", "⁰", "1", "¹", "2", "²", "3", "³", "4", "⁴", "5", "⁵", "6", "⁶", "7", "⁷", "8", "⁸", "9", "⁹")
