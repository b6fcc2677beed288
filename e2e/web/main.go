// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Command web is the web server and client of the demo.
package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"time"
)

func main() {
	if len(os.Args) != 3 {
		fail(fmt.Errorf("want: web serve TEXT, or: web get URL"))
	}
	switch os.Args[1] {
	case "serve":
		fail(http.ListenAndServe(":80", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = fmt.Fprintf(w, "%s, to %s\n", os.Args[2], r.RemoteAddr) // the client sees what is missing
		})))
	case "get":
		fail(get(os.Args[2]))
	}
}

// get prints what a URL answers. A server that is still starting is asked again.
func get(url string) error {
	client := http.Client{Timeout: 10 * time.Second}
	var last error
	for range 300 {
		response, err := client.Get(url)
		if err == nil {
			_, err = io.Copy(os.Stdout, response.Body)
			_ = response.Body.Close() // read to its end
			return err
		}
		last = err
		time.Sleep(100 * time.Millisecond)
	}
	return last
}

func fail(err error) {
	if err != nil {
		_, _ = fmt.Fprintln(os.Stderr, "web:", err)
		os.Exit(1)
	}
}
