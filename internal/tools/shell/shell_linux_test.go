package shell

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"qq/internal/box"
	"qq/internal/standin"
	"qq/pkg/proc"
	"qq/pkg/tool"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// desk is a shell with a folder and a journal of its own.
type desk struct {
	*shell
	t   testing.TB
	log string
}

func newDesk(t testing.TB, change ...func(*Config)) *desk {
	host := proc.NewHost()
	t.Cleanup(host.Close)
	log := filepath.Join(t.TempDir(), "commands.log")
	cfg := Config{
		Host: box.New(box.Config{Host: host, Dir: t.TempDir()}), Dir: t.TempDir(),
		Env: []string{"PATH=" + os.Getenv("PATH"), "HOME=/nowhere"}, Depth: 3,
		LogPath: log, Ruled: true,
	}
	for _, f := range change {
		f(&cfg)
	}
	d := &desk{newShell(cfg), t, log}
	t.Cleanup(func() { d.journal.file.Close() }) // nil is fine
	return d
}

// do runs command, with further arguments as keys and values, and returns what
// the model reads.
func (d *desk) do(command string, args ...any) string {
	d.t.Helper()
	r := standin.CallTool(d.t, d.tools(), "run_pty_cmd", standin.Args(append(args, "command", command)...))
	return r.Content
}

func (d *desk) logged() string {
	d.t.Helper()
	text, err := os.ReadFile(d.log)
	require.NoError(d.t, err)
	return string(text)
}

// alive reads /proc, because kill(pid, 0) calls a zombie alive.
func alive(pid string) bool {
	stat, err := os.ReadFile("/proc/" + pid + "/stat")
	if err != nil {
		return false
	}
	state := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])[0]
	return !bytes.Contains([]byte("ZX"), state)
}

func TestTerminal(t *testing.T) {
	d := newDesk(t)
	assert.Regexp(t, `^/dev/pts/\d+\n/dev/tty\n50 200\n\[exit code 0\]$`,
		d.do("test -t 1 && test -t 2 && tty <&1 && tty </dev/tty; stty size <&1"))
	assert.Equal(t, "04000 of 0\n[exit code 0]",
		d.do(`f=$(sed -n 's/flags:\t*//p' /proc/$$/fdinfo/1); echo 04000 of $(($f & 04000))`),
		"a program does not expect that writing can fail with EAGAIN")
}

func TestNoInput(t *testing.T) {
	d := newDesk(t)
	begin := time.Now()
	assert.Equal(t, "1 []\n0\n[exit code 0]", d.do(`read x; echo $? "[$x]"; cat; head -c 1 </dev/tty; echo $?`))
	assert.Equal(t, "[no output]\n[exit code 1]", d.do(`test -t 0`))
	assert.Less(t, time.Since(begin), 20*time.Second)
}

func TestOutcome(t *testing.T) {
	d := newDesk(t)
	for command, want := range map[string]string{
		"echo a; echo b >&2":              "a\nb\n[exit code 0]",
		"printf a":                        "a\n[exit code 0]",
		"true":                            "[no output]\n[exit code 0]",
		"exit 3":                          "[no output]\n[exit code 3]",
		"echo x\nfalse\n":                 "x\n[exit code 1]",
		"echo a; kill -SEGV $$":           "a\n[killed by signal SIGSEGV]",
		`printf '\033[31mred\033[0m\r\n'`: "red\n[exit code 0]",
		`printf '10%%\r20%%\r\033[Kdone'`: "done\n[exit code 0]",
		`printf 'a\000b\377'`:             "ab\uFFFD\n[exit code 0]",
		"echo Error: not of the tool":     "Error: not of the tool\n[exit code 0]",
		"no-such-program 2>/dev/null":     "[no output]\n[exit code 127]",
	} {
		r := d.tools()[0].Run(t.Context(), []byte(standin.Args("command", command)))
		assert.False(t, r.Failed, command)
		assert.Equal(t, want, r.Content, command)
	}
}

// What a command prints last is not lost, however fast it ends.
func TestLastWords(t *testing.T) {
	d := newDesk(t)
	for range 50 {
		out := d.do("seq 1 2000")
		require.True(t, strings.HasSuffix(out, "\n1999\n2000\n[exit code 0]"), out)
		require.Equal(t, 2001, strings.Count(out, "\n")+1)
	}
}

func TestNothingStaysBehind(t *testing.T) {
	const await = `until [ -s pid ]; do sleep 0.02; done; cat pid`
	for name, command := range map[string]string{
		"in the background":         `sleep 100 & echo $!`,
		"in a session of its own":   `setsid sleep 100 & echo $!`,
		"deaf, in a session":        `setsid sh -c 'trap "" TERM HUP; echo $$ >pid; sleep 100; sleep 100' & ` + await,
		"with the terminal closed":  `setsid sleep 100 >/dev/null 2>&1 & echo $!`,
		"without an environment":    `env -i setsid sleep 100 & echo $!`,
		"printing without an end":   `(trap "" HUP; while :; do echo; sleep 0.01; done) & echo $!`,
		"whose parent is long dead": `(setsid sh -c 'sleep 100 & echo $! >pid' &); ` + await,
	} {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t)
			begin := time.Now()
			out := d.do(command)
			assert.Less(t, time.Since(begin), 20*time.Second)
			pid := regexp.MustCompile(`\d+`).FindString(out)
			require.NotEmpty(t, pid, out)
			assert.False(t, alive(pid), out)
			assert.Regexp(t,
				`\n\[(a process|\d processes) that the command left running (was|were) killed\]\n\[exit code 0\]$`, out)
		})
	}
}

func TestTimeout(t *testing.T) {
	d := newDesk(t)
	d.grace = 50 * time.Millisecond
	for name, command := range map[string]string{
		"obeys":            `echo $$; exec sleep 100`,
		"deaf":             `trap "" TERM; echo $$; while :; do sleep 100; done`,
		"prints for ever":  `echo $$; exec yes`,
		"sleeps elsewhere": `trap "" TERM; echo $$; setsid -w sh -c 'trap "" TERM; sleep 100; sleep 100'`,
	} {
		t.Run(name, func(t *testing.T) {
			begin := time.Now()
			out := d.do(command, "timeout", 1)
			assert.GreaterOrEqual(t, time.Since(begin), time.Second)
			assert.Less(t, time.Since(begin), 20*time.Second)
			pid, _, _ := strings.Cut(out, "\n")
			assert.False(t, alive(pid), pid)
			assert.True(t,
				strings.HasSuffix(out,
					"\n[timed out after 1s: the command was stopped, this is its output until then]"),
				out[max(0, len(out)-200):])
		})
	}
}

func TestCancel(t *testing.T) {
	d := newDesk(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	t.Cleanup(func() { cancel(nil) })
	fifo := filepath.Join(d.Dir, "fifo")
	require.NoError(t, syscall.Mkfifo(fifo, 0o600))
	go func() {
		f, err := os.Open(fifo) // returns when the command has opened it
		assert.NoError(t, err)
		cancel(errors.New("the run was stopped"))
		f.Close()
	}()
	r := standin.CallToolContext(ctx, t, d.tools(), "run_pty_cmd",
		standin.Args("command", `echo $$; trap "echo bye; exit" TERM; sleep 100 >fifo & wait`))
	pid, rest, _ := strings.Cut(r.Content, "\n")
	assert.False(t, alive(pid), r.Content)
	assert.Equal(t, "bye\n[cancelled: the run was stopped: the command was stopped, this is its output until then]",
		rest)

	r = standin.CallToolContext(ctx, t, d.tools(), "run_pty_cmd", `{"command":"touch started"}`)
	assert.Equal(t, "Error: the command was not started: the run was stopped", r.Content)
	assert.NoFileExists(t, filepath.Join(d.Dir, "started"))
}

func TestManyBytes(t *testing.T) {
	d := newDesk(t)
	d.do("true")
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	out := d.do(`echo begin; yes 0123456789çççç | head -c 50000000; echo; echo end`)
	runtime.ReadMemStats(&after)
	assert.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(4<<20), "all that was ever allocated")
	assert.True(t, strings.HasPrefix(out, "begin\n0123456789çççç\n"), out[:100])
	assert.True(t, strings.HasSuffix(out, "\nend\n[exit code 0]"), out[len(out)-100:])

	note := regexp.MustCompile(`\n\[(\d+) characters are left out here; the whole output is in (.*), bytes ` +
		`(\d+)-(\d+)\]\n`).FindStringSubmatch(out)
	require.NotNil(t, note)
	assert.Equal(t, d.log, note[2])
	from, err := strconv.Atoi(note[3])
	require.NoError(t, err)
	to, err := strconv.Atoi(note[4])
	require.NoError(t, err)
	whole := d.logged()[from-1 : to]
	assert.True(t, strings.HasPrefix(whole, "begin\n0123456789"))
	assert.True(t, strings.HasSuffix(whole, "\nend\n"))
	shown := strings.Replace(strings.TrimSuffix(out, "[exit code 0]"), note[0], "", 1)
	left, err := strconv.Atoi(note[1])
	require.NoError(t, err)
	assert.Equal(t, len([]rune(whole)), left+maxChars)
	assert.InDelta(t, maxChars, len([]rune(shown)), 1)
}

func TestEnvironmentOfACommand(t *testing.T) {
	tmp := t.TempDir()
	d := newDesk(t, func(c *Config) {
		c.TempDir = tmp
		c.Env = append(c.Env, "OPENAI_API_KEY=sk-1", "QQ_CONTROL=1", "QQ_MODEL=m", "QQ_RECURSION_DEPTH=3",
			"QQ_EXECUTION_ID_3=e",
			"QQ_COMMAND_ID_2=outer", "QQ_COMMAND_ID_3=stale", "PAGER=less", "TERM=xterm", "COLUMNS=80", "FORCE_COLOR=1",
			"TMPDIR=/x", "LANG=C", "PWD=/x")
	})
	got := strings.Split(strings.TrimSuffix(d.do("exec env"), "\n[exit code 0]"), "\n")
	for i, entry := range got {
		got[i] = regexp.MustCompile(`^(QQ_COMMAND_ID_3=)[A-Z2-7]{26}$`).ReplaceAllString(entry, "${1}random")
	}
	assert.ElementsMatch(t, []string{
		"PATH=" + os.Getenv("PATH"), "HOME=/nowhere", "LANG=C", "PWD=" + d.Dir, "TMPDIR=" + tmp, "XDG_CACHE_HOME=" +
			tmp + "/cache",
		"PAGER=cat", "GIT_PAGER=cat", "GIT_EDITOR=true", "GIT_TERMINAL_PROMPT=0", "TERM=dumb", "NO_COLOR=1",
		"QQ_RECURSION_DEPTH=3", "QQ_EXECUTION_ID_3=e", "QQ_COMMAND_ID_2=outer", "QQ_COMMAND_ID_3=random",
	}, got)
	assert.Equal(t, []string{"TMPDIR=/x"}, Environment([]string{"TMPDIR=/x"}, "")[:1], "without a folder for it")
}

func TestDescriptorsAreNotInherited(t *testing.T) {
	fd, err := syscall.Dup(2) // as one that a shell has handed to us
	require.NoError(t, err)
	defer syscall.Close(fd)
	d := newDesk(t)
	assert.Equal(t, "0\n1\n2\n[exit code 0]", d.do("cat /dev/null; ls -1 /proc/$$/fd"),
		"not those of ls, which reads a folder")
}

func TestWorkingDir(t *testing.T) {
	d := newDesk(t)
	outside := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(d.Dir, "a/b"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(d.Dir, "file"), nil, 0o600))
	require.NoError(t, os.Symlink("a/b", filepath.Join(d.Dir, "in")))
	require.NoError(t, os.Symlink(outside, filepath.Join(d.Dir, "out")))
	for dir, want := range map[string]string{
		"": "", ".": "", "a": "/a", "a/b/": "/a/b", "a/../a": "/a", "in": "/a/b", d.Dir: "", d.Dir + "/a": "/a",
	} {
		assert.Equal(t, d.Dir+want+"\n[exit code 0]", d.do("pwd -P", "working_dir", dir), dir)
	}
	for dir, want := range map[string]string{
		"..": "is outside the working directory: use a folder inside it, relative to it", "/": "is outside",
		outside: "is outside",
		"out":   "is outside", "a/../..": "is outside", "file": "is not a folder", "none": "no such file or directory",
	} {
		assert.Contains(t, d.do("touch started", "working_dir", dir), "Error: working_dir "+dir, dir)
		assert.Contains(t, d.do("touch started", "working_dir", dir), want, dir)
	}
	assert.NoFileExists(t, filepath.Join(d.Dir, "started"))
	assert.NoFileExists(t, filepath.Join(outside, "started"))
}

func TestArguments(t *testing.T) {
	d := newDesk(t)
	assert.Equal(t, `Error: argument "command" is missing`, d.do(" \n"))
	assert.Equal(t, "Error: the command contains a NUL character", d.do("a\x00b"))
	assert.Equal(t, "[no output]\n[exit code 0]", d.do(":"+strings.Repeat(" ", maxCommand-1)),
		"the longest that the system takes")
	assert.Equal(t, "Error: the command has 131072 bytes, and 131071 is the limit: write it to a file and run that",
		d.do(strings.Repeat(" ", maxCommand)+":"))

	r, err := d.request([]byte(`{"command":"a"}`))
	require.NoError(t, err)
	assert.Equal(t, request{"a", d.Dir, 120 * time.Second}, r)
	r, err = d.request([]byte(`{"command":"a","timeout":"601"}`))
	require.NoError(t, err)
	assert.Equal(t, 600*time.Second, r.timeout)
}

func TestIntent(t *testing.T) {
	d := newDesk(t)
	plan := func(command string) tool.Intent {
		in, err := tool.Plan(t.Context(), d.tools()[0], []byte(standin.Args("command", command)))
		require.NoError(t, err)
		return in
	}
	assert.Equal(t, tool.Intent{
		Tool: "run_pty_cmd", Effect: tool.Executes, Risk: tool.High, Summary: "run: go test ./...",
		Preview: "go test ./...\nin " + d.Dir, Command: "go test ./...",
	}, plan("go test ./..."))
	require.NoError(t, os.Mkdir(filepath.Join(d.Dir, "sub"), 0o700))
	in, err := tool.Plan(t.Context(), d.tools()[0], []byte(standin.Args("command", "ls; ls", "working_dir", "sub")))
	require.NoError(t, err)
	assert.Equal(t, "sub", in.Dir)
	assert.Equal(t, "it is not one command", in.Doubt)
	assert.Equal(t, "run: cd a ...", plan("\ncd a\nrm -r b").Summary)
	long := plan(strings.Repeat("x", 200))
	assert.Len(t, long.Summary, len("run: ")+summaryChars)
	assert.Contains(t, long.Preview, strings.Repeat("x", 200))
	hidden := plan("rm -r ~ #\r\x1b[2Kls \u202e")
	assert.Equal(t, `run: rm -r ~ #␍␛[2Kls <U+202E>`, hidden.Summary)
	assert.Equal(t, hidden.Summary+"\nin "+d.Dir, "run: "+hidden.Preview)

	require.NoError(t, os.Mkdir(filepath.Join(d.Dir, "a"), 0o700))
	require.NoError(t, os.Mkdir(filepath.Join(d.Dir, "b"), 0o700))
	require.NoError(t, os.Symlink("a", filepath.Join(d.Dir, "l")))
	linked := []byte(standin.Args("command", "touch x", "working_dir", "l"))
	in, err = tool.Plan(t.Context(), d.tools()[0], linked)
	require.NoError(t, err)
	require.NoError(t, os.Remove(filepath.Join(d.Dir, "l")))
	require.NoError(t, os.Symlink("b", filepath.Join(d.Dir, "l")))
	r := d.tools()[0].Run(tool.WithGrant(t.Context(), in), linked)
	assert.Equal(t, "Error: the working directory of the command is "+filepath.Join(d.Dir, "b")+
		" by now, which is not what was approved: call again", r.Content)

	_, err = tool.Plan(t.Context(), d.tools()[0], []byte(`{"command":"ls","working_dir":"/"}`))
	require.ErrorContains(t, err, "outside", "nobody is asked about what cannot work")
}

// A command that a rule allowed is started as its words, with an environment that starts nothing else.
func TestWithoutAShell(t *testing.T) {
	d := newDesk(t, func(c *Config) {
		c.Env = append(c.Env, "PATH="+c.Dir+"/bin:"+os.Getenv("PATH"), "ENV=/x", "BASH_ENV=/x", "LD_BIND_NOW=1",
			"LANG=C")
	})
	do := func(command string) string {
		args := standin.Args("command", command)
		in, err := tool.Plan(t.Context(), d.tools()[0], []byte(args))
		require.NoError(t, err)
		in.Rule = "run_pty_cmd(x)"
		return standin.CallToolContext(tool.WithGrant(t.Context(), in), t, d.tools(), "run_pty_cmd", args).Content
	}
	assert.Equal(t, "a  $HOME;\n[exit code 0]", do("printf %s 'a  $HOME;'"))
	env := do("env")
	assert.NotRegexp(t, `(?m)^(ENV|BASH_ENV|LD_BIND_NOW)=`, env)
	assert.Contains(t, env, "\nLANG=C\n")
	assert.Contains(t, env, "\nPWD="+d.Dir+"\n")
	assert.NotContains(t, env, d.Dir+"/bin")
	assert.Equal(t, "Error: the rule run_pty_cmd(x) does not allow this any more: it is not one command",
		do("true; touch started"))
	require.NoError(t, os.Mkdir(filepath.Join(d.Dir, "bin"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(d.Dir, "bin/printf"), []byte("#!/bin/sh\n"), 0o700))
	assert.Contains(t, do("printf x"), "printf would be started from "+d.Dir+"/bin, which agents may change")
	assert.Equal(t, "x\n[exit code 0]", d.do("PATH="+os.Getenv("PATH")+" printf x"), "a person may allow it")
}

// nowhere starts another program than it is told to.
type nowhere struct{ Starter }

func (n nowhere) Start(c proc.Command, show []string) (box.Running, error) {
	c.Path = "/no/such"
	return n.Starter.Start(c, show)
}

func TestCannotStart(t *testing.T) {
	d := newDesk(t, func(c *Config) { c.Host = nowhere{c.Host} })
	d.do("true") // the Host opens what it needs
	before, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	assert.Equal(t, "Error: start /no/such: no such file or directory", d.do("true"))
	after, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	assert.Len(t, after, len(before), "open files")
}

func TestJournal(t *testing.T) {
	d := newDesk(t)
	require.NoError(t, os.WriteFile(d.log, []byte("older\n"), 0o600))
	d.do("printf '\033[1mone\033[0m'")
	d.do("for i in 1 2\ndo echo $i; done; exit 4")
	d.do("sleep 100", "timeout", 1)
	assert.Equal(t, `older
$ printf '␛[1mone␛[0m'
one
[exit code 0]
$ for i in 1 2
> do echo $i; done; exit 4
1
2
[exit code 4]
$ sleep 100
[timed out after 1s: the command was stopped, this is its output until then]
`, d.logged())
}

// The journal can be read while the command runs.
func TestJournalIsWrittenMeanwhile(t *testing.T) {
	d := newDesk(t)
	out := d.do(fmt.Sprintf(`echo first; i=0; until grep -sq ^first %s; do i=$((i+1)); [ $i -lt 500 ] || exit 9; `+
		`sleep 0.02; done; grep -c first %[1]s`, d.log))
	assert.Equal(t, "first\n2\n[exit code 0]", out, "its name and its output")
}

func TestWithoutJournal(t *testing.T) {
	const long = "yes | head -n 20000"
	d := newDesk(t, func(c *Config) { c.LogPath = "" })
	assert.Contains(t, d.do(long),
		"\n[10000 characters are left out here; no file has the whole output: there is no folder for it]\n")

	folder := filepath.Join(t.TempDir(), "outputs")
	d = newDesk(t, func(c *Config) { c.LogPath = filepath.Join(folder, "log") })
	assert.Contains(t, d.do(long),
		"; no file has the whole output: open the log of commands: open "+folder+"/log: no such file or directory]\n")
	assert.Equal(t, "a\n[exit code 0]", d.do("echo a"), "what is shown is not lost")
	require.NoError(t, os.Mkdir(folder, 0o700))
	assert.Contains(t, d.do(long), "the whole output is in "+folder+"/log")
}

func TestFullDisk(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	require.NoError(t, err)
	defer full.Close()
	d := newDesk(t, func(c *Config) { c.Log = full })
	assert.Contains(t, d.do("yes | head -n 20000"),
		"no file has the whole output: write /dev/full: no space left on device]")
}

func TestSeveralAtOnce(t *testing.T) {
	d := newDesk(t)
	const n = 6
	outs := make([]string, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			// Each waits for all, so that they do run at the same time.
			outs[i] = d.do(fmt.Sprintf(`echo %[1]d begins; touch %[1]d; until [ -e 0 -a -e 1 -a -e 2 -a -e 3 -a -e 4 `+
				`-a -e 5 ]; do sleep 0.02; done; sleep 100 & yes %[1]d | head -n 20000; exit %[1]d`, i))
		})
	}
	wg.Wait()
	mixed := 0
	for i, out := range outs {
		assert.True(t, strings.HasPrefix(out, fmt.Sprintf("%d begins\n", i)))
		assert.True(t,
			strings.HasSuffix(out,
				fmt.Sprintf("\n%d\n[a process that the command left running was killed]\n[exit code %[1]d]", i)),
			out[len(out)-100:])
		other := regexp.MustCompile(fmt.Sprintf(`(?m)^[^%d[]$`, i)).FindString(out)
		assert.Empty(t, other, "from another command")
		if strings.Contains(out, ", between that of commands that ran at the same time]") {
			mixed++
		}
	}
	assert.GreaterOrEqual(t, mixed, n-1, "all but the one that began last")
	log := d.logged()
	for i := range n {
		assert.Len(t, regexp.MustCompile(fmt.Sprintf(`(?m)^\$ echo %d begins;.*exit %[1]d$`, i)).FindAllString(log, -1),
			1)
		assert.Equal(t, 1, strings.Count(log, fmt.Sprintf("[exit code %d]\n", i)))
		assert.Equal(t, 20000, len(regexp.MustCompile(fmt.Sprintf(`(?m)^%d$`, i)).FindAllString(log, -1)))
	}
}

// TestHints: a model is told why a command could not do what it wanted.
func TestHints(t *testing.T) {
	d := newDesk(t)
	for said, hint := range map[string]string{
		"echo x: Read-only file system; exit 1":             obeyedHint,
		"echo connect to /run/x.sock: refused; exit 1":      socketHint,
		"echo connect to /run/x.sock: refused; echo it did": "",
	} {
		assert.Regexp(t, regexp.MustCompile(`\[exit code [01]\]`+regexp.QuoteMeta(hint)+"$"), d.do(said))
	}
}
