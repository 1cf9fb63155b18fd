// Package parallel compares qq batch with GNU parallel: the same jobs run through both programs, and what each started,
// ended, printed and logged must be the same. What is meant to differ is written down with the reason, and must differ.
//
// A job of parallel is a shell command that waits and then prints its answer or fails. A task of qq asks a stand-in
// model server, whose answer waits as long, or is empty, which is a failure.
package parallel

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"qq/internal/standin"
	"qq/test/qqbin"
)

// qq is the path of the qq under test, which TestMain makes.
var qq string

func TestMain(m *testing.M) {
	code, err := tests(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, "parallel:", err)
		code = max(code, 1)
	}
	os.Exit(code)
}

// tests runs the tests with a qq of their own. It is written before the first test starts a process, which would
// inherit the open file: nobody can run a program that somebody may write.
func tests(m *testing.M) (code int, err error) {
	dir, err := os.MkdirTemp("", "qq-parallel-")
	if err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if qq, err = qqbin.Install(context.Background(), dir); err != nil {
		return 1, err
	}
	return m.Run(), nil
}

// unit is how long a job with wait 1 waits. It is long against the start of a process.
const unit = 500 * time.Millisecond

// soon is after which time a run of one of the programs hangs.
const soon = time.Minute

// job is one job of a list. Its number counts from 1.
type job struct {
	wait int // in units
	fail bool
}

// ok and bad are jobs that end at once.
var ok, bad = job{}, job{fail: true}

// program returns the path of GNU parallel. Without one it skips the test, or fails it if there has to be one.
func program(t *testing.T) string {
	t.Helper()
	path := os.Getenv("QQ_PARALLEL")
	switch {
	case path != "":
		return path
	case os.Getenv("QQ_PARALLEL_REQUIRED") == "1":
		t.Fatal("no GNU parallel: set QQ_PARALLEL to what test/parallel/tools.sh prints")
	}
	t.Skip("no GNU parallel: set QQ_PARALLEL to what test/parallel/tools.sh prints")
	return ""
}

// run is what one run of a program did.
type run struct {
	code    int
	out     string // stdout
	problem string // stderr
	started []int  // numbers of jobs, in ascending order
	ended   []int
	log     []logged // nil without a job log
}

// killed are the jobs that were started and did not end.
func (r run) killed() (some []int) {
	for _, n := range r.started {
		if !slices.Contains(r.ended, n) {
			some = append(some, n)
		}
	}
	return some
}

// side is one of the two programs, with a list of jobs and a folder of its own.
type side interface {
	// run runs the program with these flags on the numbers of all jobs.
	run(t *testing.T, flags ...string) run
}

// stage is a folder in which one program runs.
type stage struct {
	dir string
	env []string
}

func newStage(t *testing.T) stage {
	dir := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "home", ".parallel"), 0o700))
	// Without this file GNU parallel prints a notice.
	require.NoError(t, os.WriteFile(filepath.Join(dir, "home", ".parallel", "will-cite"), nil, 0o600))
	return stage{dir, []string{"HOME=" + filepath.Join(dir, "home"), "PATH=" + os.Getenv("PATH"), "TMPDIR=" + dir}}
}

// exec runs a program with this text on stdin.
func (s stage) exec(t *testing.T, in, path string, args ...string) run {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), soon)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, args...)
	var out, problem bytes.Buffer
	cmd.Dir, cmd.Env, cmd.Stdin, cmd.Stdout, cmd.Stderr = s.dir, s.env, strings.NewReader(in), &out, &problem
	err := cmd.Run()
	if _, exited := errors.AsType[*exec.ExitError](err); err != nil && !exited {
		require.NoError(t, err)
	}
	require.NoError(t, ctx.Err(), "it hangs: %s", problem.String())
	return run{code: cmd.ProcessState.ExitCode(), out: out.String(), problem: problem.String()}
}

// numbers are the inputs of n jobs, one a line.
func numbers(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintln(&b, i+1)
	}
	return b.String()
}

// shell is GNU parallel with jobs that are shell commands.
type shell struct {
	stage
	path string
	jobs []job
}

func newShell(t *testing.T, jobs []job) *shell {
	s := &shell{newStage(t), program(t), jobs}
	var script strings.Builder
	script.WriteString("echo $1 >> started\ncase $1 in\n")
	for i, j := range jobs {
		fmt.Fprintf(&script, "%d) sleep %.2f; ", i+1, (time.Duration(j.wait) * unit).Seconds())
		if !j.fail {
			fmt.Fprintf(&script, "echo answer %d; ", i+1)
		}
		fmt.Fprintf(&script, "echo $1 >> ended; exit %d ;;\n", map[bool]int{true: 3}[j.fail])
	}
	script.WriteString("esac\n")
	require.NoError(t, os.WriteFile(filepath.Join(s.dir, "job.sh"), []byte(script.String()), 0o600))
	return s
}

// run implements side.
func (s *shell) run(t *testing.T, flags ...string) run {
	t.Helper()
	for _, name := range []string{"started", "ended"} {
		require.NoError(t, os.WriteFile(filepath.Join(s.dir, name), nil, 0o600))
	}
	r := s.exec(t, numbers(len(s.jobs)), s.path, append(flags, "sh job.sh {}")...)
	r.started, r.ended = s.read(t, "started"), s.read(t, "ended")
	r.log = readLog(t, filepath.Join(s.dir, "log"))
	return r
}

// write writes a file of the stage.
func (s stage) write(t *testing.T, name, text string) {
	require.NoError(t, os.WriteFile(filepath.Join(s.dir, name), []byte(text), 0o600))
}

// read returns the numbers in a file, in ascending order.
func (s *shell) read(t *testing.T, name string) (all []int) {
	text, err := os.ReadFile(filepath.Join(s.dir, name))
	require.NoError(t, err)
	for word := range strings.FieldsSeq(string(text)) {
		n, err := strconv.Atoi(word)
		require.NoError(t, err)
		all = append(all, n)
	}
	slices.Sort(all)
	return all
}

// agents is qq batch with tasks that ask a model server.
type agents struct {
	stage
	jobs   []job
	server *standin.Server
}

func newAgents(t *testing.T, jobs []job) *agents {
	var scripts []standin.Script
	for i, j := range jobs {
		s := standin.Script{Start: fmt.Sprintf("[[job%d]]", i+1), Text: fmt.Sprintf("answer %d", i+1)}
		if j.fail {
			s.Text = "" // an empty answer is a failure
		}
		s.Fault = &standin.Fault{BeforeFirst: time.Duration(j.wait) * unit}
		scripts = append(scripts, s)
	}
	a := &agents{newStage(t), jobs, standin.Start(t, standin.Scripts(scripts...))}
	a.env = append(a.env, "QQ_HOME="+filepath.Join(a.dir, "home", "qq"), "OLLAMA_HOST="+a.server.URL,
		"QQ_MODEL=ollama:"+standin.DefaultModel, "QQ_RETRIES=0")
	return a
}

// run implements side. What was started and ended is what the server saw.
func (a *agents) run(t *testing.T, flags ...string) run {
	t.Helper()
	before := len(a.server.Chats())
	args := append([]string{"batch", "--no-bar", "-m", "Do [[job{}]]"}, flags...)
	r := a.exec(t, numbers(len(a.jobs)), qq, args...)
	for _, c := range a.server.Chats()[before:] {
		n, err := strconv.Atoi(strings.Trim(strings.TrimPrefix(c.Task, "Do [[job"), "]"))
		require.NoError(t, err, c.Task)
		if !slices.Contains(r.started, n) { // an empty answer is asked for again
			r.started = append(r.started, n)
		}
		if c.Whole && !slices.Contains(r.ended, n) {
			r.ended = append(r.ended, n)
		}
	}
	slices.Sort(r.started)
	slices.Sort(r.ended)
	r.log = readLog(t, filepath.Join(a.dir, "log"))
	return r
}

// answers returns text without the lines that say that a task has no answer, which only qq prints.
func answers(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "[task ") {
			b.WriteString(line)
		}
	}
	return b.String()
}

// logged is a line of a job log.
type logged struct {
	seq           int
	host          string
	start, took   float64
	send, receive int
	exit, signal  int
	command       string
}

// failed reports whether the job of the line has failed, as GNU parallel decides that for --resume-failed.
func (l logged) failed() bool { return l.exit != 0 || l.signal != 0 }

// header is the first line of a job log.
const header = "Seq\tHost\tStarttime\tJobRuntime\tSend\tReceive\tExitval\tSignal\tCommand"

// readLog parses the job log of either program, or returns nil if there is none.
func readLog(t *testing.T, path string) []logged {
	t.Helper()
	text, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	require.NoError(t, err)
	lines := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
	require.Equal(t, header, lines[0])
	all := []logged{}
	for _, line := range lines[1:] {
		cells := strings.SplitN(line, "\t", 9)
		require.Len(t, cells, 9, line)
		var l logged
		l.host, l.command = cells[1], cells[8]
		for i, to := range map[int]*int{0: &l.seq, 4: &l.send, 5: &l.receive, 6: &l.exit, 7: &l.signal} {
			*to, err = strconv.Atoi(cells[i])
			require.NoError(t, err, line)
		}
		for i, to := range map[int]*float64{2: &l.start, 3: &l.took} {
			*to, err = strconv.ParseFloat(strings.TrimSpace(cells[i]), 64)
			require.NoError(t, err, line)
		}
		all = append(all, l)
	}
	return all
}

// last returns the last line of each job, by its number: a log may have several if it was resumed.
func last(log []logged) map[int]logged {
	all := map[int]logged{}
	for _, l := range log {
		all[l.seq] = l
	}
	return all
}
