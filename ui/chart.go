// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package ui

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/allocnet/allocnet/agent/api"
	"github.com/allocnet/allocnet/internal/texts"
)

// The size of a chart, in its own units.
const (
	chartWidth  = 300.0
	chartHeight = 64.0
	// bins is how many parts the window has.
	bins = 30
)

type chart struct {
	Title string
	// Now is the newest value, and Label says it all for those who do not see the picture.
	Now, Label string
	// Top is the value at the upper edge.
	Top string
	// Line are the points of a line. Empty: none.
	Line string
	Bars []rectangle
}

type rectangle struct {
	Class               string
	X, Y, Width, Height float64
}

func (s *Server) charts() []chart {
	now := s.now()
	samples, events := s.feed.history(now)
	return []chart{attachmentChart(samples, now), operationChart(events, now), durationChart(events, now)}
}

func attachmentChart(samples []sample, now time.Time) chart {
	c := chart{Title: "Attachments", Now: "–", Label: "no sample yet"}
	if len(samples) == 0 {
		return c
	}
	most := 1
	for _, s := range samples {
		most = max(most, s.attachments)
	}
	var line strings.Builder
	for _, s := range samples {
		x := chartWidth * (1 - float64(now.Sub(s.time))/float64(window))
		fmt.Fprintf(&line, "%.1f,%.1f ", max(0, x), scaled(s.attachments, most))
	}
	last := samples[len(samples)-1]
	fmt.Fprintf(&line, "%.1f,%.1f", chartWidth, scaled(last.attachments, most))
	c.Line, c.Now, c.Top = line.String(), fmt.Sprint(last.attachments), fmt.Sprint(most)
	c.Label = fmt.Sprintf("%d now, at most %d in the last %d minutes", last.attachments, most, window/time.Minute)
	return c
}

func scaled(value, most int) float64 {
	return chartHeight - (chartHeight-4)*float64(value)/float64(most)
}

// operationChart counts operations in parts of the window: those that are done, and failed.
func operationChart(events []api.Event, now time.Time) chart {
	var done, failed [bins]int
	sums := [2]int{}
	for _, e := range events {
		of := &done
		if e.Outcome != "done" {
			of, sums[1] = &failed, sums[1]+1
		}
		of[bin(e.Time, now)]++
		sums[0]++
	}
	most := 1
	for i := range bins {
		most = max(most, done[i]+failed[i])
	}
	c := chart{Title: "Operations", Now: fmt.Sprint(sums[0]), Top: fmt.Sprint(most)}
	for i := range bins {
		below := float64(done[i]) / float64(most)
		c.Bars = append(c.Bars, column(i, "plain", 0, below)...)
		c.Bars = append(c.Bars, column(i, "bad", below, float64(failed[i])/float64(most))...)
	}
	c.Label = fmt.Sprintf("%s in the last %d minutes, %d of them failed", texts.Counted(sums[0], "operation"), window/time.Minute, sums[1])
	return c
}

// durationChart is the longest attach in each part of the window.
func durationChart(events []api.Event, now time.Time) chart {
	var longest [bins]float64
	var all []float64
	for _, e := range events {
		if e.Operation == "attach" {
			i := bin(e.Time, now)
			longest[i], all = max(longest[i], e.Seconds), append(all, e.Seconds)
		}
	}
	c := chart{Title: "Time of an attach", Now: "–", Label: fmt.Sprintf("no attach in the last %d minutes", window/time.Minute)}
	if len(all) == 0 {
		return c
	}
	slices.Sort(all)
	most, median := all[len(all)-1], all[len(all)/2]
	for i, seconds := range longest {
		c.Bars = append(c.Bars, column(i, "plain", 0, seconds/max(most, 1e-9))...)
	}
	c.Now, c.Top = duration(median), duration(most)
	c.Label = fmt.Sprintf("%s is the median of %s in the last %d minutes, and %s the longest", duration(median), texts.Counted(len(all), "attachment"), window/time.Minute, duration(most))
	return c
}

func bin(t, now time.Time) int {
	return min(bins-1, max(0, bins-1-int(now.Sub(t)/(window/bins))))
}

// column returns the rectangle of a part of the window, if it has a height. Both numbers are
// fractions of the height of the chart.
func column(i int, class string, below, height float64) []rectangle {
	if height <= 0 {
		return nil
	}
	const width, room = chartWidth / bins, chartHeight - 4
	return []rectangle{{class, float64(i)*width + 1, chartHeight - room*(below+height), width - 2, max(1, room*height)}}
}
