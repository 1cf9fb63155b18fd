// Command server runs the stand-in for a model server as a process of its own,
// so that the bench measures qq and nothing else. It listens on a loopback port
// of the kernel's choice, prints its URL, and ends when its stdin does. The name of
// a model says how it answers: see [standin.ByName]. /bench/waiting tells how many
// requests hang, /bench/page is a page to fetch.
package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"

	"qq/internal/standin"
)

func main() {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench server:", err)
		os.Exit(1)
	}
	s := standin.New(standin.ByName())
	mux := http.NewServeMux()
	mux.Handle("/", s)
	mux.HandleFunc("GET /bench/page", func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "a page") })
	mux.HandleFunc("GET /bench/waiting", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, s.Waiting()) })
	go http.Serve(l, mux)
	fmt.Printf("http://%s\n", l.Addr())
	_, _ = io.Copy(io.Discard, os.Stdin) // until it ends
}
