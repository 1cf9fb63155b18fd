package childproc

import (
	"context"
	"os"

	"qq/pkg/agents"
	"qq/pkg/event"
	"qq/pkg/llm"
	"qq/pkg/proc"
	"qq/pkg/supervisor"
	"qq/pkg/task"
	"qq/pkg/tool"
)

// testJob is a job, and what its parent does for it.
type testJob struct {
	task.Job
	Delegate func(ctx context.Context, tasks []task.Task) []task.Result
	Family   task.Family
	Queue    func(f func())
	Active   func()
	Messages chan string
}

// testConfig is a Config, and what the parents of all children do.
type testConfig struct {
	Config
	dir     string
	Approve func(ctx context.Context, job task.Job, in tool.Intent) tool.Decision
	Effects func(job task.Job) error
	Event   func(event.Event)
	Admit   func(ctx context.Context, job task.Job, ask Enter) (llm.Permit, error)
	First   func(job task.Job, start Start) llm.Permit
}

// Args, Scratch, Prepare and Tidy implement Program.
func (c *testConfig) Args(agent string) []string {
	return []string{"qq", "--agent", agent, "--new-session", "-m", "-"}
}

func (c *testConfig) Scratch() (string, error) { return c.dir, nil }

func (c *testConfig) Prepare(_ context.Context, j task.Job) (Start, error) {
	return Start{Agent: agents.Agent{Name: j.Agent}, Models: []string{"first", "second"}}, nil
}

func (c *testConfig) Tidy(task.Job) {}

// testLauncher launches jobs with a parent.
type testLauncher struct {
	*Launcher
	cfg *testConfig
}

func (l *testLauncher) Launch(ctx context.Context, j testJob) task.Result {
	return l.Launcher.Launch(ctx, j.Job, l.parent(j))
}

func (l *testLauncher) Stage(j testJob) *testStaged {
	s := l.Launcher.Stage(j.Job)
	if s == nil {
		return nil
	}
	return &testStaged{s.(*staged), l, s.(*staged).child.proc}
}

type testStaged struct {
	*staged
	l    *testLauncher
	proc *proc.Process
}

func (s *testStaged) Launch(ctx context.Context, j testJob) task.Result {
	return s.staged.Launch(ctx, j.Job, s.l.parent(j))
}

func (l *testLauncher) parent(j testJob) supervisor.Parent {
	if j.Family == nil {
		j.Family = noFamily{}
	}
	return &testParent{Family: j.Family, cfg: l.cfg, j: j}
}

// noFamily is that of a job without children in the background.
type noFamily struct{ task.Family }

func (noFamily) Send(context.Context, string, string) error { return os.ErrInvalid }

// testParent does what the functions of its config and its job say.
type testParent struct {
	task.Family
	cfg *testConfig
	j   testJob
}

func (p *testParent) Delegate(ctx context.Context, tasks []task.Task) []task.Result {
	return p.j.Delegate(ctx, tasks)
}

func (p *testParent) Enter(ctx context.Context, model string, again bool) (permit llm.Permit, err error) {
	in := Enter{Model: model, Again: again}
	queue := p.j.Queue
	if queue == nil {
		queue = func(f func()) { f() }
	}
	if p.cfg.Admit == nil {
		return uncounted{}, nil
	}
	queue(func() { permit, err = p.cfg.Admit(ctx, p.j.Job, in) })
	return permit, err
}

// uncounted is a permit of a parent that counts none.
type uncounted struct{}

func (uncounted) Allowed(llm.Allowance) {}
func (uncounted) Active()               {}
func (uncounted) Leave(llm.Report)      {}

func (p *testParent) First() llm.Permit {
	if p.cfg.First == nil {
		return nil
	}
	return p.cfg.First(p.j.Job, Start{ExecutionID: p.j.ExecutionID})
}

func (p *testParent) Active() {
	if p.j.Active != nil {
		p.j.Active()
	}
}

func (p *testParent) Approve(ctx context.Context, in tool.Intent) tool.Decision {
	if p.cfg.Approve == nil {
		return tool.Decision{Reason: "nobody can be asked"}
	}
	return p.cfg.Approve(ctx, p.j.Job, in)
}

func (p *testParent) Changed([]string) {}

func (p *testParent) Effects() error {
	if p.cfg.Effects == nil {
		return nil
	}
	return p.cfg.Effects(p.j.Job)
}

func (p *testParent) Emit(e event.Event) {
	if p.cfg.Event != nil { // who it is about is what the parent knows, whatever the child says
		e.ExecutionID, e.ParentExecutionID, e.BatchID, e.Agent, e.Depth = p.j.ExecutionID, p.j.Parent, p.j.BatchID,
			p.j.Agent, p.j.Depth
		p.cfg.Event(e)
	}
}

func (p *testParent) Inbox() <-chan string { return p.j.Messages }
