// Package claude is the dialect of Claude Code: its headless mode, in which it reads and writes JSON lines.
//
// Flow: qq sends a request "initialize" with instructions, a schema and a hook, then the message of the user. The
// program asks before each call of a tool: first the hook, which answers that somebody has to be asked, so that no rule
// of the program's own allows a call, then the question itself ("can_use_tool"). A line of the type "result" ends the
// turn, and qq closes stdin.
package claude

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"strconv"
	"strings"
	"sync"

	"qq/internal/foreign/wire"
	"qq/pkg/agents/program"
)

// Dialect is that of Claude Code.
type Dialect struct{}

var _ wire.Dialect = Dialect{}

// withheld are tools that make no sense without a person at the terminal, or outlive the task.
const withheld = "AskUserQuestion,EnterPlanMode,ExitPlanMode,EnterWorktree,ExitWorktree,ScheduleWakeup,CronCreate," +
	"CronDelete,CronList"

// writing are its tools that change files.
const writing = ",Edit,MultiEdit,Write,NotebookEdit"

// Command implements wire.Dialect.
func (Dialect) Command(job wire.Job) (wire.Command, error) {
	denied := withheld
	if job.ReadOnly {
		denied += writing
	}
	args := []string{
		program.Claude, "-p", "--output-format", "stream-json", "--input-format", "stream-json", "--verbose",
		"--include-partial-messages", "--permission-prompt-tool", "stdio", "--permission-mode", "default",
		"--setting-sources", "user", "--strict-mcp-config", "--disallowedTools", denied,
	}
	if job.Model != "" {
		args = append(args, "--model", job.Model)
	}
	if job.MaxTurns > 0 {
		args = append(args, "--max-turns", strconv.Itoa(job.MaxTurns))
	}
	if job.MaxCost > 0 {
		args = append(args, "--max-budget-usd", job.MaxCost.String())
	}
	if job.Session != "" {
		args = append(args, "--resume", job.Session)
	}
	return wire.Command{
		Args: args,
		Add:  []string{"DISABLE_AUTOUPDATER=1", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1"},
		Drop: []string{"CLAUDECODE", "CLAUDE_*", "AI_AGENT"},
		Keep: []string{
			"ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_BASE_URL", "ANTHROPIC_CUSTOM_HEADERS",
			"CLAUDE_CODE_OAUTH_TOKEN", "CLAUDE_CODE_USE_BEDROCK", "CLAUDE_CODE_USE_VERTEX", "AWS_BEARER_TOKEN_BEDROCK",
		},
		Lodgings: []wire.Lodging{{Variable: "CLAUDE_CONFIG_DIR", Default: ".claude",
			Files: []string{".credentials.json", "settings.json", "CLAUDE.md"}}},
	}, nil
}

// maxAsked is how many questions may be open at once.
const maxAsked = 32

// conversation is one turn.
type conversation struct {
	job   wire.Job
	to    wire.Reporter
	ctx   context.Context
	in    io.Writer
	write sync.Mutex // held while a line is written
	open  sync.WaitGroup
	slots chan struct{}
	asked asked
	tally tally
	turns int
	out   wire.Outcome
}

// asked are the open questions, by the id of the request.
type asked struct {
	mu     sync.Mutex
	cancel map[string]context.CancelFunc
}

// Converse implements wire.Dialect.
func (Dialect) Converse(ctx context.Context, job wire.Job, s wire.Stream, to wire.Reporter) (wire.Outcome, error) {
	ctx, cancel := context.WithCancel(ctx)
	c := &conversation{job: job, to: to, ctx: ctx, in: s.In, slots: make(chan struct{}, maxAsked),
		asked: asked{cancel: map[string]context.CancelFunc{}}}
	defer c.open.Wait()
	defer func() { // ends what waits to write, and what waits for a person
		cancel()
		s.In.Close()
	}()
	// A program that does not read must not keep qq from reading.
	c.open.Go(func() { c.begin() })
	for !c.out.Ended {
		line, err := s.Out.Next()
		if err == nil || errors.Is(err, wire.ErrHalf) && json.Valid(line) {
			c.take(line)
			continue
		}
		if errors.Is(err, wire.ErrTooLong) || errors.Is(err, wire.ErrHalf) {
			continue
		}
		if !errors.Is(err, io.EOF) {
			return c.out, err
		}
		break
	}
	if !c.out.Ended {
		c.out.Usage = c.tally.sum()
	}
	return c.out, nil
}

// begin sends what the program needs to begin.
func (c *conversation) begin() {
	first := map[string]any{"subtype": "initialize"}
	if text := strings.TrimSpace(c.job.System); text != "" {
		first["appendSystemPrompt"] = text
	}
	if len(c.job.Schema) > 0 {
		first["jsonSchema"] = c.job.Schema
	}
	if !c.job.Auto {
		first["hooks"] = map[string]any{"PreToolUse": []any{
			map[string]any{"matcher": nil, "hookCallbackIds": []string{hookID}},
		}}
	}
	c.send(map[string]any{"type": "control_request", "request_id": "qq-1", "request": first})
	c.send(map[string]any{"type": "user", "parent_tool_use_id": nil, "session_id": "default",
		"message": map[string]any{"role": "user", "content": c.job.Text}})
}

// send writes a line to the program. If that fails, the stream tells why.
func (c *conversation) send(v any) {
	line, err := json.Marshal(v)
	if err != nil {
		return // only texts and numbers are sent
	}
	c.write.Lock()
	defer c.write.Unlock()
	_, _ = c.in.Write(append(line, '\n'))
}
