package scenario

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qq/internal/standin"
)

// typed is a command of the README, with the lines that it prints there.
type typed struct {
	command string
	prints  []string
}

// typeReadme returns the commands of the README that need neither a model nor a source tree, in order: the lines
// after "$ " of the console blocks, and the lines below "# needs no model" of the others.
func typeReadme(t *testing.T) (all []typed) {
	text, err := os.ReadFile(filepath.Join("..", "..", "README.md"))
	require.NoError(t, err)
	block := regexp.MustCompile("(?ms)^([^\n]*)\n\n```(console|sh)\n(.*?)^```$")
	for _, m := range block.FindAllStringSubmatch(string(text), -1) {
		before, kind, body := m[1], m[2], m[3]
		if kind == "console" && !strings.Contains(before, "a model:") && !strings.Contains(body, "-a coder") {
			all = append(all, console(body)...)
		}
		_, body, free := strings.Cut(body, "# needs no model\n")
		if kind != "sh" || !free {
			continue
		}
		body, _, _ = strings.Cut(body, "# needs a model")
		for line := range strings.Lines(body) {
			if strings.TrimSpace(line) != "" {
				all = append(all, typed{command: strings.TrimSpace(line)})
			}
		}
	}
	return all
}

// console returns the commands of a console block.
func console(body string) (all []typed) {
	for line := range strings.Lines(body) {
		line = strings.TrimSuffix(line, "\n")
		if command, ok := strings.CutPrefix(line, "$ "); ok {
			all = append(all, typed{command: command})
			continue
		}
		last := &all[len(all)-1]
		last.prints = append(last.prints, line)
	}
	return all
}

// newcomer makes a folder in which a person reads the README, with qq in PATH.
func newcomer(t *testing.T) *world {
	w := newWorld(t, "127.0.0.1:1", "none") // no model server
	w.env = append(w.env, "QQ_MODEL=auto", "TERM=screen")
	for i, v := range w.env {
		if rest, ok := strings.CutPrefix(v, "PATH="); ok {
			w.env[i] = "PATH=" + filepath.Join(w.dir, "bin") + ":" + rest
		}
	}
	require.NoError(t, os.Mkdir(filepath.Join(w.dir, "bin"), 0o700))
	require.NoError(t, os.Symlink(w.bin, filepath.Join(w.dir, "bin", "qq")))
	require.NoError(t, os.CopyFS(filepath.Join(w.work, "docs"), os.DirFS(filepath.Join("..", "..", "docs"))))
	text, err := os.ReadFile(filepath.Join("..", "..", "README.md"))
	require.NoError(t, err)
	w.file("README.md", string(text))
	return w
}

// script writes a shell script that types the commands. It writes the exit code of each into the file codes.
func (w *world) script(all []typed) string {
	w.t.Helper()
	var b strings.Builder
	b.WriteString("export OLLAMA_HOST=127.0.0.1:1\n")
	for i, c := range all {
		fmt.Fprintf(&b, "echo '== %d'\n%s\necho \"%d $?\" >> ../codes\n", i, c.command, i)
	}
	b.WriteString("echo '== end'\n")
	path := filepath.Join(w.dir, "script.sh")
	require.NoError(w.t, os.WriteFile(path, []byte(b.String()), 0o700))
	return path
}

// check checks the exit codes of the commands, and what they printed as far as it is the same each time.
func (w *world) check(all []typed, printed string, width int) {
	t := w.t
	t.Helper()
	codes, err := os.ReadFile(filepath.Join(w.dir, "codes"))
	require.NoError(t, err)
	lines := strings.Split(strings.TrimSpace(string(codes)), "\n")
	require.Len(t, lines, len(all), "not all commands ended: %s", printed)
	for i, c := range all {
		want := fmt.Sprintf("%d 0", i)
		if strings.HasPrefix(c.command, "timeout -s KILL") {
			c.prints = nil        // the shell says so in its own words
			if lines[i] != want { // else the machine was quicker
				want = fmt.Sprintf("%d 137", i)
			}
		}
		assert.Equal(t, want, lines[i], c.command)
		for _, line := range c.prints {
			if line = strings.TrimRight(line, " "); len(line) <= width && !strings.ContainsAny(line, "0123456789…") &&
				!strings.Contains(line, "   ") { // a table: its columns are as wide as they must be
				assert.Contains(t, printed, line+"\n", c.command)
			}
		}
	}
}

// TestReadmeHour types the README from top to bottom in an empty home, without a terminal and in terminals of three
// widths, as far as it needs no model.
func TestReadmeHour(t *testing.T) {
	t.Parallel() // it waits for most of its time
	all := typeReadme(t)
	require.Greater(t, len(all), 12, "the README has examples")
	w := newcomer(t)
	made := w.plainly(all)
	for _, width := range []int{40, 80, 200} {
		t.Run(strconv.Itoa(width), func(t *testing.T) { inTerminal(t, all, made, width) })
	}
}

// plainly types the commands without a terminal. It returns the folder of packages that one of them makes.
func (w *world) plainly(all []typed) (made string) {
	cmd := exec.CommandContext(w.t.Context(), "bash", w.script(all))
	cmd.Dir, cmd.Env = w.work, w.env
	cmd.WaitDelay = time.Second
	out, err := cmd.CombinedOutput()
	require.NoError(w.t, err, string(out))
	w.check(all, string(out), 1000)
	return filepath.Join(w.work, "pkgs")
}

// formatted returns lines of Markdown as a terminal shows them.
func formatted(lines []string) (shown []string) {
	for _, line := range lines {
		line = strings.TrimPrefix(line, "## ")
		if text := strings.TrimLeft(line, " "); strings.HasPrefix(text, "- ") {
			line = strings.Replace(line, "- ", "• ", 1)
		}
		shown = append(shown, line)
	}
	return shown
}

// inTerminal types the commands in tmux, and looks at what a person sees.
func inTerminal(t *testing.T, all []typed, made string, width int) {
	if _, err := exec.LookPath("tmux"); err != nil {
		if os.Getenv("QQ_TMUX_REQUIRED") != "" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	w := newcomer(t)
	require.NoError(t, os.CopyFS(filepath.Join(w.work, "pkgs"), os.DirFS(made)))
	all = append([]typed(nil), all...)
	for i, c := range all {
		if c.command == "mkdir pkgs" || strings.Contains(c.command, "go doc") { // made already
			all[i] = typed{command: "true"}
		}
		all[i].prints = formatted(all[i].prints)
	}
	screen := w.tmux(width, 50, "bash "+w.script(all))
	w.until(2*runTimeout, "the end of the README", func() bool {
		return strings.Contains(screen(), "== end")
	})
	text := screen()
	w.check(all, text, width-1)
	assert.NotContains(t, text, "waiting for", "a progress line is left")
	assert.NotContains(t, text, " left\n", "a progress line is left")
	assert.NotRegexp(t, `\^\[|\x1b`, text)
}

// tmux runs a command in a terminal of that size. The function returns all that the terminal has shown.
func (w *world) tmux(width, height int, command string) (screen func() string) {
	w.t.Helper()
	socket := filepath.Join(w.dir, "tmux")
	run := func(args ...string) (string, error) {
		cmd := exec.Command("tmux", append([]string{"-S", socket, "-f", "/dev/null"}, args...)...)
		cmd.Dir, cmd.Env = w.work, w.env
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	out, err := run("new-session", "-d", "-x", strconv.Itoa(width), "-y", strconv.Itoa(height), "-s", "s",
		command+"; sleep 600")
	require.NoError(w.t, err, out)
	w.t.Cleanup(func() {
		_, err := run("kill-server")
		assert.NoError(w.t, err)
	})
	_, err = run("set-option", "-t", "s", "history-limit", "10000")
	require.NoError(w.t, err)
	return func() string {
		out, err := run("capture-pane", "-p", "-J", "-S", "-", "-t", "s")
		require.NoError(w.t, err, out)
		return out
	}
}

// TestHourOfWork: of a batch of fifty files and a change, on a model that takes 20 s, one child is killed and one
// is cancelled. Then the ledger and the transcripts alone tell what each did, why one failed, and what was changed.
func TestHourOfWork(t *testing.T) {
	t.Parallel() // it waits for most of its time
	s := standin.Start(t, standin.ByName())
	w := newWorld(t, s.Host(), "slow20000")
	w.file("notes.txt", "A boat flaots.\n")
	edit, err := json.Marshal(map[string]any{"tool": "edit_file", "times": 1, "arguments": map[string]string{
		"path": "notes.txt", "old_text": "flaots", "new_text": "floats"}})
	require.NoError(t, err)
	var tasks strings.Builder
	for i := range 50 {
		w.file(fmt.Sprintf("f%02d.txt", i), "text\n")
		fmt.Fprintf(&tasks, "{\"task\":\"Summarize f%02d.txt\"}\n", i)
	}
	change, err := json.Marshal(map[string]string{"task": string(edit), "agent": "coder", "model": "ollama:script"})
	require.NoError(t, err)
	w.file("tasks.jsonl", tasks.String()+string(change)+"\n")
	q := w.start("", "batch", "--no-bar", "-j", "60", "--retries", "0", "--allow", "edit_file", "--results", "out",
		"tasks.jsonl")
	w.until(runTimeout, "all are asked", func() bool { return s.Count("/api/chat") >= 52 })
	ids := map[string]string{} // by task
	for _, r := range w.runs("list", "--agent", "default", "--limit", "0") {
		ids[r.Task] = r.ID
	}
	killed, cancelled := ids["Summarize f07.txt"], ids["Summarize f09.txt"]
	require.NoError(t, syscall.Kill(w.carrying("QQ_EXECUTION_ID_1="+killed), syscall.SIGKILL))
	assert.Contains(t, w.qq("runs", "cancel", cancelled).stdout, ": Summarize f09.txt\n")
	e := q.wait()
	assert.Equal(t, 4, e.code)

	// From here on only with qq runs.
	list := w.runs("list", "--limit", "0", "--status", "completed,killed,cancelled", "--agent", "default")
	require.Len(t, list, 50)
	byStatus := map[string][]string{}
	for _, r := range list {
		byStatus[r.Status] = append(byStatus[r.Status], r.Task)
	}
	assert.Len(t, byStatus["completed"], 48)
	assert.Equal(t, []string{"Summarize f07.txt"}, byStatus["killed"])
	assert.Equal(t, []string{"Summarize f09.txt"}, byStatus["cancelled"])
	assert.Regexp(t, `^RUN +STARTED +STATUS.*\n\w{8} .* failed +\(batch\) .* 50/51 done, 1 failed, 1 cancelled in `,
		w.qq("runs").stdout)
	assert.Contains(t, w.qq("runs", "show", killed).stdout, "child was killed by signal 9")
	assert.Contains(t, w.qq("runs", "show", cancelled).stdout, "Sub-agent cancelled by user.")
	for _, id := range []string{killed, cancelled} {
		assert.Contains(t, w.qq("runs", "show", id, "--log").stdout, "\n── user, ", "it was asked and said nothing")
	}
	coder := w.runs("list", "--agent", "coder")
	require.Len(t, coder, 1)
	assert.Regexp(t, `(?m)^changed +notes.txt$`, w.qq("runs", "show", coder[0].ID).stdout)
	log := w.qq("runs", "show", coder[0].ID, "--log").stdout
	assert.Regexp(t, `(?m)^→ edit_file .*notes.txt`, log)
	assert.Regexp(t, `(?m)^── tool edit_file, [0-9:]+, took [0-9.]+s$`, log)
	assert.Contains(t, log, "status: completed\n")
	children := w.qq("sessions", "list", "--children", "--limit", "0", "--json").stdout
	assert.Equal(t, 51, strings.Count(children, `"id":`))
}

// carrying returns the process with that entry in its environment.
func (w *world) carrying(entry string) int {
	w.t.Helper()
	for _, pid := range w.processes() {
		env, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
		if err == nil && bytes.Contains(env, []byte(entry+"\x00")) {
			return pid
		}
	}
	w.t.Fatal("no process has " + entry)
	return 0
}
