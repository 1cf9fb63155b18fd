package app

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"qq/internal/standin"
)

// consoleWorld is a world whose model says what it was told, and the scripts that tests of the console use.
func consoleWorld(t *testing.T) (*world, *standin.Server) {
	t.Helper()
	w, server := newServedWorld(t,
		standin.Models(standin.Model{Name: "stand-in", Context: 4_000_000}),
		standin.Scripts(
			standin.Script{Start: "[[stall]]", Text: "one two three",
				Fault: &standin.Fault{Break: standin.Stall, After: 2}},
			standin.Script{Start: "[[late]]", Text: "late", Fault: &standin.Fault{BeforeFirst: time.Minute}},
			standin.Script{Start: "[[slow]]", Text: strings.Repeat("many slow words ", 15),
				Fault: &standin.Fault{Between: 50 * time.Millisecond}},
		),
		standin.Reply(func(p standin.Prompt) string {
			last, said := p.Messages[len(p.Messages)-1], p.Last("user")
			switch {
			case strings.Contains(said, "write it") && last.Role != "tool":
				return "I write now.\n" + called("write_file", map[string]any{"path": "a.txt", "content": "b\n"})
			case strings.Contains(said, "run it") && last.Role != "tool":
				return called("run_pty_cmd", map[string]any{"command": "touch begun; sleep 100"})
			case last.Role == "tool":
				return "The tool said: " + last.Content
			}
			return fmt.Sprintf("**Heard** %d bytes of %d messages: %.60s", len(said), len(p.Messages), said)
		}))
	w.set("TERM=xterm-256color", "NO_COLOR=1")
	return w, server
}

// console starts a console.
func (w *world) console(args ...string) *screen {
	w.t.Helper()
	s := w.onTerminal(args...)
	s.until("/help lists the commands")
	return s
}

// say types a line.
func (s *screen) say(line string) {
	s.w.t.Helper()
	s.press(line + "\r")
}

// answered waits until n turns have ended.
func (s *screen) answered(n int) {
	s.w.t.Helper()
	ends := regexp.MustCompile(`\([\d:]+ s( · [\d.]+k? tokens)?\)\n`)
	if !assert.Eventually(s.w.t, func() bool { return len(ends.FindAllString(s.shown(), -1)) >= n }, 30*time.Second,
		5*time.Millisecond) {
		s.w.t.Fatalf("not %d answers on the screen:\n%s", n, s.shown())
	}
}

// leave ends the console. Control-D does nothing while an answer comes, so it is pressed again.
func (s *screen) leave() ended {
	s.w.t.Helper()
	ended := make(chan struct{})
	defer close(ended)
	go func() {
		for {
			_, _ = io.WriteString(s.keys, "\x15\x04") // the terminal may be gone
			select {
			case <-ended:
				return
			case <-time.After(time.Second):
			}
		}
	}()
	return s.wait()
}

// TestConsole: a conversation with history, which qq -c goes on with; what was typed is kept for the user alone.
func TestConsole(t *testing.T) {
	w, _ := consoleWorld(t)
	s := w.console()
	s.say("hello")
	s.until("**Heard** 5 bytes of 2 messages: hello\n")
	s.answered(1)
	s.say("again")
	s.until("**Heard** 5 bytes of 4 messages: again\n")
	s.answered(2)
	e := s.leave()
	assert.Zero(t, e.code)
	assert.Regexp(t, `qq -c goes on with this conversation \(session \S+\)\n`, e.out)
	assert.Contains(t, w.run("-c", "third").out, "of 6 messages")

	path := filepath.Join(w.home, "qq", "history")
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, "\"hello\"\n\"again\"\n", string(text))
	info, err := os.Stat(path)
	require.NoError(t, err)
	assert.EqualValues(t, 0o600, info.Mode().Perm())

	s = w.console("-c")
	s.press("\x1b[A\x1b[A\r") // from the history
	s.until("**Heard** 5 bytes of 8 messages: hello\n")
	s.say("/session")
	s.until("goes on with it")
	s.say("/session new")
	s.until("the next task begins a session")
	s.say("fresh")
	s.until("**Heard** 5 bytes of 2 messages: fresh\n")
	assert.Zero(t, s.leave().code)
	assert.Equal(t, 5, strings.Count(w.run("runs", "list").out, "completed"), w.run("runs", "list").out)
}

// TestConsoleEphemeral: without a transcript the conversation goes on in memory, and so does the next one.
func TestConsoleEphemeral(t *testing.T) {
	w, _ := consoleWorld(t)
	s := w.console("--ephemeral", "-a", "coder", "--approve", "auto")
	s.say("hello")
	s.until("of 2 messages")
	s.answered(1)
	s.say("again, write it")
	s.until("The tool said: created a.txt")
	s.answered(2)
	s.say("/session")
	s.until("no session is kept")
	s.say("/session new")
	s.until("the next task begins a session")
	kept, _ := os.ReadDir(filepath.Join(w.home, "qq", "undo"))
	assert.Empty(t, kept, "of the first conversation")
	s.say("a second secret")
	s.until("15 bytes of 2 messages")
	s.answered(3)
	s.say("/session 2026")
	s.until("with --ephemeral no session goes on")
	e := s.leave()
	assert.NotContains(t, e.out, "qq -c")
	assert.NoFileExists(t, filepath.Join(w.home, "qq", "history"))
	kept, _ = os.ReadDir(filepath.Join(w.home, "qq", "undo"))
	assert.Empty(t, kept, "nothing could find it any more")
	require.NoError(t, filepath.WalkDir(filepath.Join(w.home, "qq"), func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		text, err := os.ReadFile(path)
		assert.NotContains(t, string(text), "second secret", path)
		return err
	}))
	assert.Contains(t, w.with("QQ_HOME="+t.TempDir()).onTerminal("-c").wait().out, "hint: start one without --continue")
}

// TestConsoleNotWanted: only a terminal without a task gets a console.
func TestConsoleNotWanted(t *testing.T) {
	w, _ := consoleWorld(t)
	for _, other := range []*world{w.with("TERM=dumb"), w.with("QQ_RECURSION_DEPTH=1")} {
		e := other.onTerminal().wait()
		assert.Equal(t, 2, e.code)
		assert.Contains(t, e.out, "qq: no task\n  hint: ")
	}
	assert.Equal(t, 2, w.run().code)
	assert.Contains(t, w.onTerminal("--json").wait().out, "no task")
	cmd := w.command()
	var out bytes.Buffer
	cmd.Stdout = &out // in a pipe
	e := w.onTerminalOf(80, cmd).wait()
	assert.Contains(t, e.out, "no task")
	assert.Empty(t, out.String())
}

// TestConsoleCtrlC: it ends the answer in each state, and not the console; twice it ends the program.
func TestConsoleCtrlC(t *testing.T) {
	w, _ := consoleWorld(t)
	w.set("QQ_RETRIES=0")
	s := w.console("-a", "coder")
	times := 0
	stopped := func() {
		t.Helper()
		s.press("\x03")
		times++
		require.Eventually(t, func() bool { return strings.Count(s.shown(), "stopped by Ctrl-C") == times },
			10*time.Second, 5*time.Millisecond, s.shown())
		time.Sleep(100 * time.Millisecond)
	}
	s.say("[[late]]") // before the answer
	s.until("working")
	stopped()
	s.say("[[stall]]") // within it
	s.until("one")
	stopped()
	s.say("/session new") // the model looks at the whole conversation
	s.say("write it")     // a question is open
	s.until("[n]o: ")
	stopped()
	s.say("/approve auto") // a tool of the agent runs
	s.say("run it")
	require.Eventually(t, func() bool { _, err := os.Stat(filepath.Join(w.dir, "begun")); return err == nil },
		10*time.Second, 5*time.Millisecond, s.shown())
	s.until("running run_pty_cmd touch begun")
	stopped()
	s.say("!sleep 100") // a command runs
	s.until("running sleep 100")
	time.Sleep(300 * time.Millisecond)
	stopped()
	s.press("a draft\x03") // it empties the editor
	s.say("")
	s.say("hello")
	s.until("**Heard**")
	s.answered(5) // a command of a person is not counted
	s.press("\x03")
	s.until("\nCtrl-C again ends qq")
	s.press("\x03")
	e := s.wait()
	assert.Equal(t, 130, e.code)
	assert.NotContains(t, e.out, "bytes of 2 messages: a draft")
	w.assertNoProcess()
}

// TestConsoleRestores: whatever ends the console, the terminal is as it was.
func TestConsoleRestores(t *testing.T) {
	w, _ := consoleWorld(t)
	for name, code := range map[string]int{"idle": 143, "[[stall]]": 143, "write it": 143, "/quit": 0} {
		master, slave, err := pty.Open()
		require.NoError(t, err)
		before, err := unix.IoctlGetTermios(int(slave.Fd()), unix.TCGETS)
		require.NoError(t, err)
		cmd := w.command("-a", "coder")
		cmd.Stdin, cmd.Stdout, cmd.Stderr = slave, slave, slave
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
		require.NoError(t, cmd.Start())
		s := &screen{w: w, keys: master}
		go func() {
			buf := make([]byte, 4096)
			for {
				n, err := master.Read(buf)
				if err != nil {
					return
				}
				_, _ = s.Write(buf[:n])
			}
		}()
		s.until("/help lists the commands")
		switch name {
		case "idle":
		case "[[stall]]":
			s.say(name)
			s.until("one")
		case "write it":
			s.say(name)
			s.until("[n]o: ")
		default:
			s.say(name)
		}
		if code != 0 {
			require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
		}
		_ = cmd.Wait()
		assert.Equal(t, code, cmd.ProcessState.ExitCode(), "%s: %s", name, s.shown())
		after, err := unix.IoctlGetTermios(int(slave.Fd()), unix.TCGETS)
		require.NoError(t, err)
		assert.Equal(t, before, after, name)
		if !assert.Eventually(t, func() bool {
			return strings.LastIndex(s.shown(), "\x1b[?2004h") <= strings.LastIndex(s.shown(), "\x1b[?2004l")
		}, 5*time.Second, 5*time.Millisecond, name) {
			t.Logf("%q", s.shown())
		}
		slave.Close()
		master.Close()
	}
}

// TestConsoleMessage: what is typed while an answer is written goes to the agent, when Enter is pressed.
func TestConsoleMessage(t *testing.T) {
	w, server := consoleWorld(t)
	s := w.console()
	s.say("[[slow]]")
	s.until("many slow")
	s.press("blue")
	time.Sleep(200 * time.Millisecond)
	s.say(" please")
	s.until("» blue please")
	s.answered(1)
	chats := server.Requests("/api/chat")
	assert.Equal(t, "[message from the user]\nblue please", chats[len(chats)-1].Prompt().Last("user"))
	assert.Zero(t, s.leave().code)
}

// TestConsolePaste: a paste of 1 MB is one piece, quickly, and the agent gets all of it.
func TestConsolePaste(t *testing.T) {
	w, server := consoleWorld(t)
	s := w.console()
	text := strings.Repeat(strings.Repeat("x", 49)+"\n", 20_000) + "the end"
	begun := time.Now()
	s.press("look: \x1b[200~" + strings.ReplaceAll(text, "\n", "\r") + "\x1b[201~")
	s.until("[pasted 1.0 MB, 20,001 lines]")
	assert.Less(t, time.Since(begun), 5*time.Second)
	assert.NotContains(t, s.shown(), "xxxxx")
	s.say(" thanks")
	s.until("**Heard**")
	s.answered(1)
	chats := server.Requests("/api/chat")
	said := chats[len(chats)-1].Prompt().Last("user")
	assert.Equal(t, "look: "+text+" thanks", said)
	assert.Zero(t, s.leave().code)
	info, err := os.Stat(filepath.Join(w.home, "qq", "history"))
	if err == nil {
		assert.Less(t, info.Size(), int64(1000), "a long text is not kept")
	}
}

// TestConsoleCommand: a command of a person has the sandbox of the agent, needs no question, and is denied where the
// agent's would be. The agent knows what it has printed.
func TestConsoleCommand(t *testing.T) {
	w, server := consoleWorld(t)
	w.file("seen.txt", "content of the file")
	s := w.console()
	s.say("!cat seen.txt; touch ../outside; touch made; exit 3")
	s.until("content of the file")
	s.until("exit code 3")
	s.say("what was that?")
	s.until("**Heard**")
	s.answered(1)
	chats := server.Requests("/api/chat")
	assert.Contains(t, chats[len(chats)-1].Prompt().Last("user"), "content of the file")
	assert.NotContains(t, s.shown(), "asks:")
	assert.FileExists(t, filepath.Join(w.dir, "made"))
	assert.NoFileExists(t, filepath.Join(filepath.Dir(w.dir), "outside"))
	assert.Zero(t, s.leave().code)

	s = w.with("QQ_DENY=run_pty_cmd").console()
	s.say("!touch never")
	s.until("refused")
	s.leave()
	assert.NoFileExists(t, filepath.Join(w.dir, "never"))
}

// TestConsoleFiles: @file gives a file to the agent, and Tab completes its name.
func TestConsoleFiles(t *testing.T) {
	w, server := consoleWorld(t)
	w.file("docs/guide one.md", "Guided.")
	w.file("large.bin", strings.Repeat("x", 2<<20))
	s := w.console()
	s.press("read @do\t\tgu\t")
	s.until(`@"docs/guide one.md"`)
	s.say("please, me@example.com")
	s.until("**Heard**")
	s.answered(1)
	chats := server.Requests("/api/chat")
	said := chats[len(chats)-1].Prompt().Last("user")
	assert.Contains(t, said, "The file docs/guide one.md:\nGuided.")
	assert.Contains(t, said, "please, me@example.com")
	s.say("@large.bin")
	s.until("let the agent read it")
	assert.Zero(t, s.leave().code)
}

// TestConsoleTemplates: Markdown files become commands; those of a checkout only when they are trusted.
func TestConsoleTemplates(t *testing.T) {
	w, _ := consoleWorld(t)
	w.file(".claude/commands/review.md", "---\ndescription: Review a file\n---\nReview $ARGUMENTS now.\n")
	require.NoError(t, os.MkdirAll(filepath.Join(w.home, "config", "qq", "commands"), 0o700))
	own := filepath.Join(w.home, "config", "qq", "commands", "own.md")
	require.NoError(t, os.WriteFile(own, []byte("My own"), 0o600))
	s := w.console()
	s.say("/review main.go")
	s.until(".claude/commands/review.md is not trusted")
	s.say("/own")
	s.until("6 bytes of 2 messages: My own")
	s.answered(1)
	s.leave()
	assert.Contains(t, w.run("trust", "--yes").out, "is the command /review of the console")
	s = w.console()
	s.press("/rev\t")
	s.say("main.go")
	s.until("19 bytes of 2 messages: Review main.go now.")
	s.answered(1)
	s.say("/help")
	s.until("Review a file")
	s.leave()
	w.file(".claude/commands/review.md", "Do harm") // it has changed
	s = w.console()
	s.say("/review")
	s.until("is not trusted")
	assert.Zero(t, s.leave().code)
}

// TestConsoleApprovals: what is allowed for the session is allowed in later answers, and /undo takes back what the last
// answer has changed.
func TestConsoleApprovals(t *testing.T) {
	w, _ := consoleWorld(t)
	s := w.console("-a", "coder")
	s.say("write it")
	s.until("[n]o: ")
	said := strings.Index(s.shown(), "I write now.")
	assert.Positive(t, said)
	assert.Less(t, said, strings.Index(s.shown(), "asks: write_file"), "a question comes after what its agent has said")
	s.say("s")
	s.until("The tool said: created a.txt")
	s.answered(1)
	assert.FileExists(t, filepath.Join(w.dir, "a.txt"))
	s.say("/undo")
	s.until("undone: a.txt")
	assert.NoFileExists(t, filepath.Join(w.dir, "a.txt"))
	s.say("/undo")
	s.until("the last answer is undone already")
	s.say("write it again")
	require.Eventually(t, func() bool { return strings.Count(s.shown(), "The tool said: created a.txt") == 2 },
		10*time.Second, 5*time.Millisecond)
	s.answered(2)
	assert.Equal(t, 1, strings.Count(s.shown(), "asks: write_file"))
	s.say("/approve deny")
	s.until("from the next task on: deny")
	s.say("/agents nobody")
	s.until(`hint: `)
	s.say("/agents explorer")
	s.until("the next task is for explorer")
	s.say("/tools")
	s.until("explorer may use: ")
	s.say("/model stand-out")
	s.until(`is "stand-out": it is no model`)
	s.say("/model ollama:other")
	s.until("the next task is for ollama:other")
	s.say("/cost")
	s.until("tokens: ")
	s.say("/hepl")
	s.until("did you mean /help?")
	e := s.leave()
	assert.Zero(t, e.code, e.out)
	s = w.console("-c") // the last answer can be undone after a restart too
	s.say("/undo")
	s.until("undone: a.txt")
	assert.NoFileExists(t, filepath.Join(w.dir, "a.txt"))
	assert.Zero(t, s.leave().code)
}

// TestConsoleTmux: in tmux, by script: a resize while an answer is written leaves all of it on the screen, once, and
// the line of the editor below it.
func TestConsoleTmux(t *testing.T) {
	w, _ := consoleWorld(t)
	tmux := func(args ...string) string {
		t.Helper()
		cmd := exec.Command("tmux", append([]string{"-L", fmt.Sprint("qq", os.Getpid()), "-f", os.DevNull}, args...)...)
		cmd.Dir, cmd.Env = w.dir, w.env
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%v: %s", args, out)
		return string(out)
	}
	if _, err := exec.LookPath("tmux"); err != nil {
		t.Skip("tmux is not installed")
	}
	self, err := os.Executable()
	require.NoError(t, err)
	link := filepath.Join(t.TempDir(), "qq")
	require.NoError(t, os.Symlink(self, link))
	w.set("LC_ALL=C.UTF-8")
	tmux("new-session", "-d", "-x", "70", "-y", "20", link)
	t.Cleanup(func() { tmux("kill-server") })
	shown := func() string { return tmux("capture-pane", "-p", "-J", "-S", "-100") }
	until := func(text string) {
		t.Helper()
		require.Eventually(t, func() bool { return strings.Contains(shown(), text) }, 20*time.Second,
			20*time.Millisecond, "%s", text)
	}
	until("> ")
	tmux("send-keys", "-l", "👩‍👩‍👧 漢 [[slow]]")
	until("👩‍👩‍👧 漢 [[slow]]")
	tmux("send-keys", "Enter")
	until("answering")
	for _, size := range [][2]string{{"40", "20"}, {"100", "12"}, {"55", "30"}, {"70", "20"}} {
		time.Sleep(250 * time.Millisecond)
		tmux("resize-window", "-x", size[0], "-y", size[1])
	}
	tmux("send-keys", "-l", "typed meanwhile")
	until(" tokens)")
	text := shown()
	assert.Equal(t, 15, len(regexp.MustCompile(`many\s+slow\s+words`).FindAllString(text, -1)), text)
	assert.Equal(t, 1, strings.Count(text, "> typed meanwhile"), text)
	assert.NotContains(t, text, "answering")
	lines := strings.Split(strings.TrimRight(text, "\n "), "\n")
	assert.Equal(t, "> typed meanwhile", strings.TrimSpace(lines[len(lines)-1]), text)
}

// history lines are JSON: what is no such line is left out.
func TestConsoleHistory(t *testing.T) {
	w, _ := consoleWorld(t)
	path := filepath.Join(w.home, "qq", "history")
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
	line, err := json.Marshal("from before\nin two lines")
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, append([]byte("no json\n\"\\u001b[31m\"\n"), append(line, '\n')...), 0o600))
	s := w.console()
	s.press("\x12before\r") // Control-R
	s.until("24 bytes of 2 messages: from before")
	assert.Zero(t, s.leave().code)
}

// TestConsoleTree: /tree shows the agents at work with their ids, and /cancel ends one of them: the other one and the
// answer go on.
func TestConsoleTree(t *testing.T) {
	w, _ := newServedWorld(t, standin.Reply(func(p standin.Prompt) string {
		last, said := p.Messages[len(p.Messages)-1], p.Last("user")
		switch {
		case last.Role == "tool":
			return "The tool said: " + last.Content
		case strings.Contains(said, "both"):
			return called("run_parallel_tasks", map[string]any{"tasks": []map[string]any{
				{"task": "wait for first", "agent": "executor", "targets": []string{"a"}},
				{"task": "wait for second", "agent": "executor", "targets": []string{"b"}},
			}})
		}
		name := strings.Fields(said)[2]
		return called("run_pty_cmd", map[string]any{
			"command": "touch begun." + name + "; " +
				"until [ -e go." + name + " ]; do sleep 0.05; done; echo ended " + name,
		})
	}))
	w.set("TERM=xterm-256color", "NO_COLOR=1")
	s := w.onTerminalSized(150, 40, w.command("-a", "default", "--auto-approve"))
	s.until("/help lists the commands")
	s.say("/tree")
	s.until("no agent is at work")
	s.say("both")
	for _, name := range []string{"first", "second"} {
		require.Eventually(t, func() bool { _, err := os.Stat(filepath.Join(w.dir, "begun."+name)); return err == nil },
			30*time.Second, 5*time.Millisecond, "%s", s.shown())
	}
	s.say("/tree")
	shown := regexp.MustCompile(`\n([0-9a-f]{8})  ● executor .*wait for first\n([0-9a-f]{8})  ● executor .*wait for second\n`)
	var ids []string
	require.Eventually(t, func() bool { ids = shown.FindStringSubmatch(s.shown()); return ids != nil }, 10*time.Second,
		5*time.Millisecond)
	s.say("/cancel none")
	s.until("0 agents at work have the id none")
	s.say("/cancel " + ids[1])
	require.NoError(t, os.WriteFile(filepath.Join(w.dir, "go.second"), nil, 0o600))
	s.answered(1) // the first one waits until it is cancelled
	assert.Contains(t, s.shown(), "\n2 tasks: 1 completed, 1 cancelled\n")
	s.say("/cancel")
	s.until("no answer is being written")
	assert.Zero(t, s.leave().code)
}
