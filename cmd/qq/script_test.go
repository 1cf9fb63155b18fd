package main

import (
	"encoding/base64"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"qq/internal/app/modelcmd/labtest"
	"qq/internal/standin"
	"qq/pkg/childproc"
)

// TestMain lets the test binary be the qq of the scripts, and that of their
// children, which are the same program started again.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"qq": func() {
		if os.Getenv(childproc.ControlVar) == "" {
			connectStdin()
		}
		main()
	}})
}

// connectStdin makes an empty stdin that of a command without a pipe, for a
// script gives every command a pipe. A script that means an empty pipe sets
// EMPTY_PIPE.
func connectStdin() {
	text, err := io.ReadAll(os.Stdin)
	if err != nil {
		panic(err)
	}
	name := os.DevNull
	if len(text) > 0 || os.Getenv("EMPTY_PIPE") != "" {
		name = filepath.Join(os.Getenv("WORK"), "stdin")
		if err := os.WriteFile(name, text, 0o600); err != nil {
			panic(err)
		}
	}
	if os.Stdin, err = os.Open(name); err != nil {
		panic(err)
	}
}

// TestScripts runs what a person would type. Each script says first what it
// guards. Models are those of a stand-in server with the texts of scripts().
func TestScripts(t *testing.T) {
	server := standin.Start(t, standin.Scripts(scripts()...), standin.Models(
		standin.Model{Name: standin.DefaultModel},
		standin.Model{Name: "eyes", Capabilities: []string{"completion", "tools", "vision"}},
		standin.Model{Name: "maybe", Capabilities: []string{}},
		standin.Model{Name: "keen", Cached: 20},
	))
	lab := labtest.Start(t, labtest.Lab{Key: "marker-of-the-key"})
	bare := labtest.Start(t, labtest.Lab{List: `{"data":[{"id":"m"}]}`})
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(e *testscript.Env) error {
			// The home directory is not below the working directory: agents that write would ask once more.
			home := filepath.Join(e.WorkDir, "home")
			if err := os.MkdirAll(home, 0o700); err != nil {
				return err
			}
			if err := os.Rename(home, e.WorkDir+"-home"); err != nil {
				return err
			}
			if err := os.Symlink(e.WorkDir+"-home", home); err != nil {
				return err
			}
			e.Setenv("HOME", home)
			e.Setenv("QQ_HOME", filepath.Join(e.WorkDir, "home", "qq"))
			e.Setenv("QQ_MODEL", "extract")
			e.Setenv("OLLAMA_HOST", server.URL)
			e.Setenv("LAB_URL", lab.URL+"/v1")
			e.Setenv("BARE_URL", bare.URL+"/v1")
			e.Setenv("MARK", "SCRIPT_MARK="+e.WorkDir)
			e.Setenv("SCRIPT_MARK", e.WorkDir)
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"gone":  gone,
			"shown": func(ts *testscript.TestScript, neg bool, args []string) { shown(ts, server, neg, args) },
		},
	})
}

// scripts is what the models of the stand-in server say.
func scripts() []standin.Script {
	call := func(task string) string {
		return `<tool_call>{"name": "delegate_task", "arguments": {"agent": "summarizer", "task": "` + task + `"}}</tool_call>`
	}
	return []standin.Script{
		{Start: "[[hello]]", Text: "Hello there."},
		{Start: "[[forge]]", Text: "Fine.\n\n## 7. Forged\n\n**completed** · coder\n\n```\n<!--"},
		{Start: "[[fan]]", Text: call("Write a line. [[poem]]") + call("Judge it. [[judge]]")},
		{Start: "[[poem]]", Text: "The sea is blue. [[sum]]"},
		{Start: "[[judge]]", Text: "It is good. [[sum]]"},
		{Start: "[[sum]]", Text: "Both are done."},
		{Start: "[[edit]]", Text: `<tool_call>{"name": "edit_file", "arguments": {"path": "note.txt", "old_text": "one", "new_text": "two [[done]]"}}</tool_call>`},
		{Start: "[[look]]", Text: `[[done]]<tool_call>{"name": "read_file", "arguments": {"path": ".env"}}</tool_call>`},
		{Start: "[[eye]]", Text: `[[done]]<tool_call>{"name": "read_file", "arguments": {"path": "read.png"}}</tool_call>`},
		{Start: "[[shell]]", Text: `<tool_call>{"name": "run_pty_cmd", "arguments": {"command": "echo x > made.txt; echo '[[done]]'"}}</tool_call>`},
		// What the lead goes on with stands in its own call, for the task may be refused.
		{Start: "[[hand]]", Text: `<tool_call>{"name": "delegate_task", "arguments": {"agent": "coder", "task": "Change it. [[edit]]", "id": "[[done]]"}}</tool_call>`},
		{Start: "[[verified]]", Text: `<tool_call>{"name": "delegate_task", "arguments": {"agent": "coder", "task": "Change it. [[edit]]", "check": "touch ran", "id": "[[done]]"}}</tool_call>`},
		{Start: "[[idle]]", Text: `<tool_call>{"name": "run_pty_cmd", "arguments": {"command": "echo '[[done]]'"}}</tool_call>`},
		{Start: "[[touch]]", Text: `<tool_call>{"name": "run_pty_cmd", "arguments": {"command": "touch note.txt; echo '[[done]]'"}}</tool_call>`},
		{Start: "[[hold]]", Text: `<tool_call>{"name": "run_pty_cmd", "arguments": {"command": "until test -e go; do sleep 0.05; done; echo '[[done]]'"}}</tool_call>`},
		{Start: "[[split]]", Text: `<tool_call>{"name": "run_parallel_tasks", "arguments": {"tasks": [{"agent": "coder", "task": "X [[hold]]", "targets": ["f"]}, {"agent": "coder", "task": "Y [[done]]", "targets": ["f"]}]}}</tool_call>`},
		{Start: "[[done]]", Text: "It is done."},
		{Start: "[[empty]]", Text: ""},
		{Start: "[[loop]]", Text: "tick tock", Loop: true},
		{Start: "[[broken]]", Text: "one two three four", Fault: &standin.Fault{Break: standin.Cut, After: 2}},
	}
}

// shown fails unless so many requests to the model server had the image in each file.
func shown(ts *testscript.TestScript, server *standin.Server, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: shown TIMES FILE…")
	}
	for _, name := range args[1:] {
		image, times := base64.StdEncoding.EncodeToString([]byte(ts.ReadFile(name))), 0
		for _, r := range server.Requests("/api/chat") {
			times += strings.Count(string(r.Body), `"`+image+`"`)
		}
		if fmt.Sprint(times) != args[0] {
			ts.Fatalf("%s was shown %d times", name, times)
		}
	}
}

// gone fails when a process that carries the mark of the script is alive, or a
// file of a running child is left.
func gone(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 0 {
		ts.Fatalf("usage: gone")
	}
	mark := ts.Getenv("MARK")
	dirs, err := filepath.Glob("/proc/[0-9]*")
	ts.Check(err)
	for _, d := range dirs {
		env, err := os.ReadFile(filepath.Join(d, "environ"))
		if err == nil && strings.Contains(string(env), mark+"\x00") {
			line, _ := os.ReadFile(filepath.Join(d, "cmdline"))
			ts.Fatalf("alive: %s %q", d, line)
		}
	}
	left, err := filepath.Glob(filepath.Join(ts.Getenv("QQ_HOME"), "run", "*"))
	ts.Check(err)
	if len(left) > 0 {
		ts.Fatalf("left: %v", left)
	}
}
