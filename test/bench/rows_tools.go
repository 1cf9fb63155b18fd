package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"qq/test/terminal"
)

// step is a task for the model "script" of the server: call this tool so many times.
type step struct {
	Tool      string
	Times     int
	Arguments map[string]string
}

func (s step) String() string {
	text, err := json.Marshal(s)
	if err != nil {
		panic(err) // strings can be written as JSON
	}
	return string(text)
}

// play runs qq with a step as its task, and returns what that cost and what qq printed.
func (b *bench) play(ctx context.Context, c command, s step, args ...string) (used, []byte, error) {
	c.program, c.args = b.bin["qq"], append([]string{"--model", "ollama:script", s.String()}, args...)
	return c.output(ctx)
}

// fact is the part of a qq event that the bench reads.
type fact struct {
	TS          time.Time
	Type        string
	Tool        string
	Depth       int
	Failed      bool
	ExecutionID string `json:"execution_id"`
}

// calls returns how long the calls of a tool took, as the root saw them, and how many questions
// were asked meanwhile. A failed call is an error: it may have been refused, which costs nothing.
func calls(stream []byte, tool string, depth int) (took []time.Duration, questions int, err error) {
	var began fact
	facts := json.NewDecoder(bytes.NewReader(stream))
	for {
		var f fact
		switch err := facts.Decode(&f); {
		case err == io.EOF:
			return took, questions, nil
		case err != nil:
			return nil, 0, fmt.Errorf("read the events: %w", err)
		case f.Type == "validation_required":
			questions++
		case f.Tool != tool:
		case f.Type == "tool_start":
			began = f
		case f.Type == "tool_end" && (f.Failed || f.Depth != depth || f.ExecutionID != began.ExecutionID):
			return nil, 0, fmt.Errorf("call %d of %s: failed %v, at depth %d", len(took), tool, f.Failed, f.Depth)
		case f.Type == "tool_end":
			took = append(took, f.TS.Sub(began.TS))
		}
	}
}

// askedLimit is how long a run may take in which a person is asked.
const askedLimit = time.Minute

// relays defines agents that delegate their task, so that the last one works at depth 2.
var relays = map[string]string{"middle": `---
name: middle
description: passes its task on
tools: [delegate_task]
role: information-gathering
can_delegate: true
---
Pass it on.
`, "last": `---
name: last
description: reads pages
tools: [web_fetch]
role: information-gathering
---
Read pages.
`}

// measureApproval measures calls at depth 2 that need the root's approval. The person allows the
// tool for the session at the first call, so that all other calls go to the root and back without
// waiting for a person. The yardstick is calls of a tool that was allowed beforehand, which the
// child's own process knows.
func measureApproval(ctx context.Context, b *bench) ([]line, error) {
	n := b.pick(300, 60)
	work := step{"web_fetch", n, map[string]string{"url": b.url + "/bench/page?{i}"}}
	for _, agent := range []string{"last", "middle"} {
		work = step{"delegate_task", 1, map[string]string{"agent": agent, "task": work.String()}}
	}
	var times [2][]time.Duration
	for range b.pick(5, 1) {
		for i, ask := range []bool{true, false} {
			took, err := b.fetches(ctx, work, n, ask)
			if err != nil {
				return nil, err
			}
			times[i] = append(times[i], took...)
		}
	}
	asked, allowed := median(times[0]), median(times[1])
	return []line{
		within("an approved call from depth 2, against one allowed beforehand", asked, allowed, time.Millisecond),
		within("of that, the way to the root and back", asked-allowed, 0, time.Millisecond),
	}, nil
}

// fetches makes the calls of work at depth 2 and returns how long each took.
func (b *bench) fetches(ctx context.Context, work step, n int, ask bool) ([]time.Duration, error) {
	dir, env, done, err := b.home()
	if err != nil {
		return nil, err
	}
	defer done()
	agents := filepath.Join(dir, ".qq", "agents")
	if err := os.MkdirAll(agents, 0o700); err != nil {
		return nil, err
	}
	for name, text := range relays {
		if err := os.WriteFile(filepath.Join(agents, name+".md"), []byte(text), 0o600); err != nil {
			return nil, err
		}
	}
	c := command{dir: dir, env: append(env, "QQ_WEB_ALLOW="+strings.TrimPrefix(b.url, "http://"))}
	args := []string{"--output-format", "stream-json"}
	var out []byte
	wanted := 0
	if ask {
		wanted = 1
		out, err = b.playAsked(ctx, c, work, "session\n", args...)
	} else {
		_, out, err = b.play(ctx, c, work, append(args, "--allow", "web_fetch")...)
	}
	if err != nil {
		return nil, err
	}
	times, questions, err := calls(out, "web_fetch", 2)
	if err == nil && (len(times) != n || questions != wanted) {
		err = fmt.Errorf("%d calls and %d questions, want %d and %d", len(times), questions, n, wanted)
	}
	return times, err
}

// playAsked is play with a person at a terminal, who gives one answer.
func (b *bench) playAsked(ctx context.Context, c command, s step, answer string, args ...string) ([]byte, error) {
	person, program, err := terminal.Open()
	if err != nil {
		return nil, err
	}
	defer program.Close()
	ctx, cancel := context.WithTimeout(ctx, askedLimit) // a second question would wait for ever
	defer cancel()
	answered := make(chan error, 1)
	go func() {
		err := answerOnce(ctx, person, "[n]o: ", answer)
		if err != nil {
			cancel() // or qq would wait for the answer
		}
		answered <- err
	}()
	c.terminal = program
	_, out, err := b.play(ctx, c, s, args...)
	closed := person.Close() // nobody asks any more
	return out, errors.Join(err, <-answered, closed)
}

// measureSandbox measures what a child spends on its sandbox before its first request to a model.
// qq cannot omit the sandbox, so the benchmark of package sandbox restricts fresh processes, with
// one processor as children have. It reports how long that took and how much longer these
// processes lived than others.
func measureSandbox(ctx context.Context, b *bench) ([]line, error) {
	module, err := goEnv(ctx, "GOMOD")
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, "go", "test", "-run", "^$", "-bench", "^BenchmarkApply$/^.*$/^procs=1$",
		"-benchtime", fmt.Sprintf("%dx", b.pick(100, 20)), "./internal/sandbox")
	cmd.Dir = filepath.Dir(filepath.Dir(module)) // the module qq
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	out, err := cmd.CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("run the benchmark of the sandbox: %w\n%s", err, out)
	}
	const what, limit = "sandbox of a child, ", 2 * time.Millisecond
	if bytes.Contains(out, []byte("--- SKIP")) {
		return []line{{what: what + "set up", note: "this system has none"}}, nil
	}
	var lines []line
	for _, rules := range []string{"read-only", "writing"} {
		apply, ok := metric(out, "BenchmarkApply/"+rules+"/", "µs/apply")
		process, also := metric(out, "BenchmarkApply/"+rules+"/", "µs/process")
		if !ok || !also {
			return nil, fmt.Errorf("no figures in what the benchmark of the sandbox says:\n%s", out)
		}
		lines = append(lines,
			within(what+rules+": set up", apply, 0, limit),
			within(what+rules+": longer life of the process", process, 0, limit))
	}
	return lines, nil
}

// metric finds a figure in microseconds in the output of go test for a benchmark whose name
// begins with name.
func metric(out []byte, name, unit string) (time.Duration, bool) {
	for text := range strings.Lines(string(out)) {
		fields := strings.Fields(text)
		i := slices.Index(fields, unit)
		if i < 1 || !strings.HasPrefix(fields[0], name) {
			continue
		}
		if figure, err := strconv.ParseFloat(fields[i-1], 64); err == nil {
			return time.Duration(figure * 1e3), true
		}
	}
	return 0, false
}

func goEnv(ctx context.Context, name string) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "env", name).Output()
	if err != nil {
		return "", fmt.Errorf("go env %s: %w", name, err)
	}
	return strings.TrimSpace(string(out)), nil
}

// measureGrep compares a run of qq that searches Go's source tree with one call, including its
// start and two answers of the model, with grep. Both write to files, because grep stops at the
// first match if its output is /dev/null.
func measureGrep(ctx context.Context, b *bench) ([]line, error) {
	const pattern = `func \w+Reader\(` // fewer matches than are shown
	root, err := goEnv(ctx, "GOROOT")
	if err != nil {
		return nil, err
	}
	src := filepath.Join(root, "src")
	dir, env, done, err := b.home()
	if err != nil {
		return nil, err
	}
	defer done()
	task := step{"grep_file", 1, map[string]string{"pattern": pattern}}
	grep := command{program: "grep", args: []string{"-rnE", pattern, src}, dir: dir, env: env}
	var ours, theirs int                    // lines found
	us, err := b.interleave(1+b.pick(9, 3), // the first round reads the tree from the disk
		func() (used, error) {
			u, out, err := b.play(ctx, command{dir: dir, env: env}, task, "-C", src)
			ours = bytes.Count(out, []byte(".go:"))
			return u, err
		},
		func() (used, error) {
			u, out, err := grep.output(ctx)
			theirs = bytes.Count(out, []byte(".go:"))
			return u, err
		},
	)
	if err != nil {
		return nil, err
	}
	if ours == 0 || ours != theirs {
		return nil, fmt.Errorf("qq found %d lines and grep %d", ours, theirs)
	}
	const what = "qq with one grep_file over the source of Go, against grep -rn: "
	return []line{
		ratio(what+"wall", column(us[0][1:], wall), column(us[1][1:], wall), 3, milliseconds),
		ratio(what+"CPU", column(us[0][1:], cpu), column(us[1][1:], cpu), 3, milliseconds),
	}, nil
}

// measureEdit compares edits in the middle of a large file, including the diff that an approval
// shows, with writing such a file as durably.
func measureEdit(ctx context.Context, b *bench) ([]line, error) {
	dir, env, done, err := b.home()
	if err != nil {
		return nil, err
	}
	defer done()
	text := large()
	if err := os.WriteFile(filepath.Join(dir, "large"), text, 0o600); err != nil {
		return nil, err
	}
	var edited, written []time.Duration
	for round := range b.pick(6, 2) {
		took, err := b.edits(ctx, command{dir: dir, env: env}, round)
		if err != nil {
			return nil, err
		}
		edited = append(edited, took...)
		for range took {
			start := time.Now()
			if err := replaceDurably(filepath.Join(dir, "plain"), text); err != nil {
				return nil, err
			}
			written = append(written, time.Since(start))
		}
	}
	const what = "edit_file in 5 MB, against writing as much"
	return []line{within(what, median(edited), median(written), 50*time.Millisecond)}, nil
}

// edits makes several edits in one run of qq, different ones in each round.
func (b *bench) edits(ctx context.Context, c command, round int) ([]time.Duration, error) {
	const n = 5
	place := fmt.Sprintf("%d{i}0 of a file", 400+round) // the number of a line
	s := step{"edit_file", n, map[string]string{"path": "large", "old_text": "line " + place,
		"new_text": "LINE " + place}}
	_, out, err := b.play(ctx, c, s, "--agent", "coder", "--output-format", "stream-json", "--allow", "edit_file")
	if err != nil {
		return nil, err
	}
	took, _, err := calls(out, "edit_file", 0)
	if err == nil && len(took) != n {
		err = fmt.Errorf("%d edits, want %d", len(took), n)
	}
	return took, err
}

// large returns a text of 5 MB with numbered lines.
func large() []byte {
	var text bytes.Buffer
	for i := 0; text.Len() < 5_000_000; i++ {
		fmt.Fprintf(&text, "\tline %d of a file that is as large as files get\n", i)
	}
	return text.Bytes()
}

// replaceDurably does the minimum that keeps either the old or the new content of a file, even
// after a crash.
func replaceDurably(path string, text []byte) error {
	f, err := os.Create(path + ".new")
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	err = errors.Join(err, f.Sync(), f.Close())
	if err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}
