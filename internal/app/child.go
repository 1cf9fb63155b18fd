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
	"qq/pkg/supervisor"
	"qq/pkg/task"
)

// serveChild is the life of a child, whose root is at the other end of conn.
func serveChild(conn *childproc.Conn, s Streams, env command.Environment) int {
	status, err := conn.Serve(Version(), s.In, s.Out, child{engine.Child{
		Version: Version(), Environ: env, Agents: func(dir string) *agents.Registry { return env.Agents(dir) },
	}})
	if err != nil {
		return report(s.Err, err)
	}
	return status.ExitCode()
}

// child is the program of a child, which a signal ends.
type child struct{ engine.Child }

// Run implements childproc.Runner.
func (c child) Run(ctx context.Context, start *childproc.Start, job task.Job, p supervisor.Parent) task.Result {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	term := make(chan os.Signal, 1)
	signal.Notify(term, syscall.SIGTERM, syscall.SIGINT)
	go func() { // ends with the process
		<-term
		cancel(errSignal)
	}()
	return c.Child.Run(ctx, start, job, p)
}
