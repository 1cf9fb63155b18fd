package app

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"qq/internal/app/command"
	"qq/internal/engine"
	"qq/pkg/agents"
	"qq/pkg/childproc"
)

// serveChild is the life of a child, whose root is at the other end of conn.
func serveChild(conn *childproc.Conn, s Streams, env command.Environment) int {
	status, err := engine.Serve(conn, engine.Child{
		Version: Version(), In: s.In, Out: s.Out, Signals: childSignals, Environ: env,
		Agents: func(dir string) *agents.Registry { return env.Agents(dir) },
	})
	if err != nil {
		return report(s.Err, err)
	}
	return status.ExitCode()
}

// childSignals makes the first signal end the work of a child.
func childSignals(stop context.CancelCauseFunc) {
	term := make(chan os.Signal, 1)
	signal.Notify(term, syscall.SIGTERM, syscall.SIGINT)
	go func() { // ends with the process
		<-term
		stop(errSignal)
	}()
}
