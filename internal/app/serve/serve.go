// Package serve is the command qq serve: all runs of this user as pages in a browser, live and past.
//
// Flow: [Command] opens the ledger and a port of 127.0.0.1, and prints an address that works once. Package guard
// lets in the browser that opens it, and nobody else. What has happened comes from package history, and what
// happens from the control sockets of the roots; package view joins both. The pages are in package page.
//
// A run knows nothing of this server: it has a client more on its socket. When the server ends, runs go on.
package serve

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/urfave/cli/v2"

	"qq/internal/app/command"
	"qq/internal/app/serve/guard"
	"qq/internal/app/serve/page"
	"qq/internal/app/serve/view"
	"qq/internal/record/history"
	"qq/internal/record/ledger"
)

// stopTime is how long open pages may take to end.
const stopTime = 2 * time.Second

type serving struct{ *command.Invocation }

// Command returns the command qq serve.
func Command(i *command.Invocation) *cli.Command {
	s := serving{i}
	return &cli.Command{
		Name: "serve", Usage: "show all runs as pages in a browser, live and past",
		Description: "It prints an address on this machine that works once, and serves until Ctrl-C. Enter prints " +
			"another address.",
		Flags: []cli.Flag{
			&cli.IntFlag{Name: "port", Usage: "listen there on 127.0.0.1; 0 is any free one"},
			command.FlagCwd, command.FlagQuiet,
		},
		Action: s.serve,
	}
}

// serve serves until the context of c ends.
func (s serving) serve(c *cli.Context) (err error) {
	cfg, _, err := s.Configure(c)
	if err != nil {
		return err
	}
	port := c.Int("port")
	if port < 0 || port > 65535 {
		return command.Usagef("accepted is 1 to 65535, or 0 for any free one", "--port is %d", port)
	}
	led, err := ledger.Open(cfg.Home, ledger.Options{Keep: time.Duration(cfg.KeepRuns) * 24 * time.Hour})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, led.Close()) }()
	listener, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if errors.Is(err, syscall.EADDRINUSE) {
		return command.Usagef("leave --port out for a free one", "port %d is in use", port)
	}
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	ctx, stop := context.WithCancel(c.Context)
	defer stop()
	hub := view.New(cfg.Home)
	web, err := newServer(listener.Addr().String(), &view.Store{History: history.New(led, cfg.Home), Hub: hub,
		Home: cfg.Home},
		ctx.Done())
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	var work sync.WaitGroup
	defer work.Wait()
	defer stop()
	work.Go(func() { hub.Run(ctx) })
	if err := s.invite(web.guard); err != nil {
		return errors.Join(err, listener.Close())
	}
	return run(ctx, guard.Server(web.guard.Wrap(web.handler(), web.opened())), listener)
}

// newServer returns the server at host.
func newServer(host string, st *view.Store, ends <-chan struct{}) (*server, error) {
	s := &server{store: st, hub: st.Hub, now: time.Now, ends: ends, streams: make(chan struct{}, maxStreams)}
	s.guard = guard.New(host, s.refused)
	s.root = s.guard.Root()
	var err error
	s.pages, err = page.New(s.root, guard.FormField, s.guard.Form())
	return s, err
}

// opened answers the first request of a browser: it leads on to the runs. A redirection would not send the cookie, if
// the address was in the page of another site.
func (s *server) opened() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_ = s.show(w, "opened", nil) // the client is gone, or goes on
	})
}

// invite prints an address, and another one each time that the person presses Enter. Nobody can use a server whose
// address cannot be printed.
func (s serving) invite(g *guard.Guard) error {
	if _, err := fmt.Fprintln(s.Out, g.Address()); err != nil {
		return fmt.Errorf("print the address: %w", err)
	}
	s.Note("open that address; it works once. Ctrl-C ends the server, and no run")
	if info, err := s.In.Stat(); err != nil || info.Mode()&os.ModeCharDevice == 0 {
		return nil
	}
	go func() { // it ends with the process: nothing can end the read of a terminal
		for lines := bufio.NewScanner(s.In); lines.Scan(); {
			fmt.Fprintln(s.Out, g.Address())
		}
	}()
	return nil
}

// run serves until ctx has ended.
func run(ctx context.Context, web *http.Server, listener net.Listener) error {
	ended := make(chan error, 1)
	go func() { ended <- web.Serve(listener) }()
	select {
	case err := <-ended:
		return fmt.Errorf("serve: %w", err)
	case <-ctx.Done():
	}
	late, cancel := context.WithTimeout(context.Background(), stopTime)
	defer cancel()
	if web.Shutdown(late) != nil {
		_ = web.Close() // the process ends
	}
	<-ended
	return nil
}
