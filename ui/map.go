// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package ui

import (
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"regexp"
	"strings"

	"github.com/allocnet/allocnet/agent/api"
)

// onlyProblems is the value of show that leaves out what has no problem.
const onlyProblems = "problems"

func (s *Server) mapPage(ctx context.Context, r *http.Request) (content, error) {
	h, err := lookAtAll(ctx, s.config.Agent)
	if err != nil {
		return content{}, err
	}
	return content{"map", "Map", newMap(h, r.URL.Query().Get("show") == onlyProblems)}, nil
}

func (s *Server) mapImage(w http.ResponseWriter, r *http.Request) {
	ctx, stop := context.WithTimeout(r.Context(), agentTimeout)
	defer stop()
	picture, err := s.config.Agent.Map(ctx)
	if err != nil {
		http.Error(w, err.Error(), statusOf(err))
		return
	}
	w.Header().Set("Content-Security-Policy", imagePolicy(picture.SVG))
	w.Header().Set("Content-Type", "image/svg+xml")
	if !strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		_, _ = w.Write([]byte(picture.SVG)) // the browser is gone
		return
	}
	// It has megabytes, which may pass a tunnel. Pages are not compressed: their length would tell of
	// the secret path in them.
	w.Header().Set("Content-Encoding", "gzip")
	compressed, _ := gzip.NewWriterLevel(w, gzip.BestSpeed) // a level that there is
	_, _ = compressed.Write([]byte(picture.SVG))
	_ = compressed.Close()
}

var styleSheet = regexp.MustCompile(`(?s)<style>(.*?)</style>`)

// imagePolicy allows an SVG its style sheet, and nothing else: it is a document where it is
// opened by itself.
func imagePolicy(svg string) string {
	allowed := "default-src 'none'; frame-ancestors 'none'"
	if found := styleSheet.FindStringSubmatch(svg); found != nil {
		sum := sha256.Sum256([]byte(found[1]))
		allowed += "; style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
	}
	return allowed
}

// ofDrift returns how the host differs from the records, but for what the repairer says.
func (h *host) ofDrift() []problem {
	if h.Map.Err != nil {
		return nil
	}
	var all []problem
	for _, d := range h.Map.Value.Drift {
		if !h.isDamaged(d) {
			all = append(all, driftProblem(d))
		}
	}
	return all
}

func driftProblem(d api.Drift) problem {
	p := problem{Kind: "drift", Subject: short(d.Allocation), Text: d.Text, Allocation: d.Allocation, Fix: strings.TrimSpace("allocnet repair " + d.Allocation)}
	switch {
	case d.Allocation == "":
		p.Subject = d.Network
	case d.Interface != "":
		p.Text = d.Interface + " on " + d.Network + ": " + d.Text
	}
	return p
}
