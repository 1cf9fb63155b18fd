// Package shell holds the tool that runs a command.
//
// Vocabulary: a command is a script for /bin/sh. It sees a terminal where it
// writes and the end of its input where it reads. The printer makes text of what
// it writes, as a printing terminal would: without colours and without what was
// overwritten on a line. The excerpt is the part of that text which the model
// reads; the journal is the file that gets all of it, up to 256 MB for the commands
// of an agent together.
//
// Flow: the Host of this process starts the command as the leader of a session and
// of a process group. The command ends by itself, by its timeout or with the call.
// Then the Host kills what it left behind, and the call returns. A call fails only
// when the command cannot start: an exit code, a signal and a timeout are results.
//
// A command that a rule with a pattern allowed is not given to a shell: see package
// qq/internal/approval/rules.
//
// Not promised: a screen (what moves the cursor to another line begins a new line);
// that a command stays in its folder, which is the sandbox's job (see the Starter of
// [Config]); that a secret which the command reads is not shown.
package shell

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"qq/internal/approval/rules"
	"qq/internal/box"
	"qq/internal/tools/tree"
	"qq/pkg/proc"
	"qq/pkg/task"
	"qq/pkg/tool"
)

// Starter starts commands. show are files of qq that the command may read, although such files are hidden from it.
type Starter interface {
	Start(c proc.Command, show []string) (box.Running, error)
}

// Activity is told that something happens, so that a command which prints is not taken for one that hangs.
type Activity interface{ Active() }

// Bound knows the targets of a task, and that commands change nothing else.
type Bound interface {
	// Refused takes note of what a command said that could not write, and returns what the model should know then.
	Refused(lines []string) (hint string)
}

// Config tells the tool where and how its commands run.
type Config struct {
	Host Starter
	// Dir is the absolute path of the working directory.
	Dir string
	// Env is the environment of this process. Commands inherit it without variables that look
	// like secrets and without qq's settings.
	Env []string
	// Untrusted are the folders whose programs no rule allows, besides Dir and TempDir: see [rules.Place].
	Untrusted []string
	// TempDir is where commands keep temporary files and caches; empty means the folders that Env
	// names.
	TempDir string
	// Log is the file that receives the whole output of all commands. If it is nil, the file at LogPath is opened
	// for the first command. Neither is closed. Without both, output that is not shown is lost.
	Log     *os.File
	LogPath string
	// Activity is told when a command prints; nil means nobody.
	Activity Activity
	// Show returns the files of qq, besides the log, that the agent was told to read; nil means none.
	Show func() []string
	// Bound is asked about commands that could not write; nil means that no targets of a task bind them.
	Bound Bound
	// Ruled says that a rule with a pattern may allow commands. Only then is it looked up what a command would do.
	Ruled bool
	// Depth is the depth of the agent. The marks of its commands contain it, to differ from those
	// of other processes.
	Depth int
}

const (
	defaultTimeout = 120 // seconds
	maxTimeout     = 600
	// maxCommand is what Linux takes as one argument, with the byte that ends it.
	maxCommand = 128<<10 - 1
	// grace is the time between SIGTERM and SIGKILL.
	grace = 2 * time.Second
	// maxChars is how many characters of an output the model reads: one half from the beginning,
	// one half from the end.
	maxChars = 30_000
	// summaryChars are shown of a command that is named on one line.
	summaryChars = 100
)

// Tool returns a set with the tool run_pty_cmd. Its calls may run at the same time.
func Tool(cfg Config) tool.Set {
	return newShell(cfg).tools()
}

func newShell(cfg Config) *shell {
	return &shell{Config: cfg, grace: grace, journal: journal{file: cfg.Log, path: cfg.LogPath, limit: maxJournal}}
}

func (s *shell) tools() tool.Set {
	return tool.Set{tool.Function{About: spec(), Do: s.run, Intent: s.intent}}
}

func spec() tool.Spec {
	return tool.Spec{Name: "run_pty_cmd", Effect: tool.Executes,
		Description: `Run a command with /bin/sh, without input; timeout in seconds, at most 600. ` +
			`What it leaves running is ended. Example: {"command":"go test ./...","timeout":300}`,
		Parameters: json.RawMessage(`{"type":"object","required":["command"],"properties":{` +
			`"command":{"type":"string"},"timeout":{"type":"integer"},"working_dir":{"type":"string"}}}`)}
}

type shell struct {
	Config
	grace   time.Duration
	journal journal

	asking sync.Mutex // held while guards starts a command
	viewed *bool      // whether commands have a view; nil means that it is not known
}

// request holds the decoded and checked arguments of a call.
type request struct {
	command string
	dir     string // absolute, without links
	timeout time.Duration
}

func (s *shell) request(args json.RawMessage) (request, error) {
	var r request
	var seconds int
	var dir string
	fields := tool.Fields{"command": &r.command, "timeout": &seconds, "working_dir": &dir}
	if err := tool.Decode(args, fields); err != nil {
		return r, err
	}
	switch {
	case strings.TrimSpace(r.command) == "":
		return r, tool.Missing("command")
	case strings.ContainsRune(r.command, 0):
		return r, errors.New("the command contains a NUL character")
	case len(r.command) > maxCommand:
		return r, fmt.Errorf("the command has %d bytes, and %d is the limit: write it to a file and run that",
			len(r.command), maxCommand)
	}
	r.timeout = time.Duration(tool.Bounded(seconds, defaultTimeout, maxTimeout)) * time.Second
	var err error
	r.dir, err = inside(s.Dir, dir)
	return r, err
}

// inside returns the real path of the folder dir, or an error if it is outside of root. This protects nothing: it
// tells a model that the path is wrong. The sandbox restricts the command itself.
func inside(root, dir string) (string, error) {
	real, err := filepath.EvalSymlinks(root)
	if err != nil {
		return "", fmt.Errorf("the working directory: %w", tree.Reason(err))
	}
	if dir == "" {
		return real, nil
	}
	path := dir
	if !filepath.IsAbs(path) {
		path = filepath.Join(real, path)
	}
	if path, err = filepath.EvalSymlinks(path); err != nil {
		return "", fmt.Errorf("working_dir %s: %w", dir, tree.Reason(err))
	}
	if rel, err := filepath.Rel(real, path); err != nil || !filepath.IsLocal(rel) {
		return "", fmt.Errorf("working_dir %s is outside the working directory: use a folder inside it, relative to it",
			dir)
	}
	if info, err := os.Stat(path); err != nil || !info.IsDir() {
		return "", fmt.Errorf("working_dir %s is not a folder", dir)
	}
	return path, nil
}

func (s *shell) intent(ctx context.Context, args json.RawMessage) (tool.Intent, error) {
	r, err := s.request(args)
	if err != nil {
		return tool.Intent{}, err
	}
	first, _, more := strings.Cut(strings.TrimSpace(r.command), "\n")
	summary := task.Shorten(tool.Visible(first), summaryChars)
	if more && !strings.HasSuffix(summary, "...") {
		summary += " ..."
	}
	in := tool.Intent{
		Effect: tool.Executes, Risk: tool.High,
		Summary: "run: " + summary,
		Preview: r.preview(), Command: r.command,
	}
	if home, err := inside(s.Dir, ""); err == nil && home != r.dir {
		in.Dir, _ = filepath.Rel(home, r.dir) // both are absolute
	}
	if !s.Ruled {
		in.Doubt = "this run has no such rule"
	} else if _, err := s.prepare(ctx, r); err != nil {
		in.Doubt = err.Error()
	}
	return in, nil
}

// prepare returns how the command of r is started if a rule allows it: without a shell. What git starts is written in
// the repository. So a rule for git counts only where commands cannot write that.
func (s *shell) prepare(ctx context.Context, r request) (rules.Call, error) {
	call, err := rules.Prepare(r.command, rules.Place{
		Dir: r.dir, Root: s.Dir, Env: s.Env, Untrusted: append([]string{s.Dir, s.TempDir}, s.Untrusted...),
	})
	if err == nil && filepath.Base(call.Path) == "git" && !s.guards(ctx) {
		return call, errors.New("commands could write .git/config here, which says what git starts")
	}
	return call, err
}

// guards reports whether the kernel keeps commands from writing what git obeys. It starts one that does nothing, once.
// If that does not end before ctx, nothing is known.
func (s *shell) guards(ctx context.Context) bool {
	s.asking.Lock()
	defer s.asking.Unlock()
	if s.viewed != nil {
		return *s.viewed
	}
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0) // launch closes it
	if err != nil {
		return false
	}
	p, err := s.launch(ctx, proc.Command{Path: "/bin/sh", Args: []string{"sh", "-c", ":"}, Dir: s.Dir, Stdout: null,
		Stderr: null, Grace: s.grace}, nil)
	if err != nil {
		return false
	}
	select {
	case <-p.Done():
	case <-ctx.Done():
		p.Stop()
		return false
	}
	viewed := p.Wait().Viewed
	s.viewed = &viewed
	return viewed
}

// preview is what a person reads who decides about the command.
func (r request) preview() string { return tool.Visible(r.command) + "\nin " + tool.Visible(r.dir) }
