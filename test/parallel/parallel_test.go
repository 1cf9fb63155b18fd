package parallel

import (
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// outcome is what a run came to.
type outcome struct {
	ended, killed []int
	fails         bool // the exit code is not 0
}

// haltCase is a list of jobs and a --halt.
type haltCase struct {
	halt string
	jobs []job
	at   int // once
	want outcome
	// parallel is what GNU parallel comes to instead, and why is the reason for the difference.
	parallel *outcome
	why      string
	// lost are jobs that have ended and that GNU parallel neither prints nor logs: with -k they wait for a job that is
	// killed then. qq prints and logs what has ended.
	lost []int
	// anyCode says that the exit code of GNU parallel does not count: that of 20221122 is 101 when done=N with an N
	// above 1 is reached and nothing has failed.
	anyCode bool
}

// first are the numbers from 1 to n.
func first(n int) (all []int) {
	for i := range n {
		all = append(all, i+1)
	}
	return all
}

// haltCases are the cases of TestHalt by their names.
func haltCases() map[string]haltCase {
	wait := func(n int) job { return job{wait: n} }
	waitBad := func(n int) job { return job{wait: n, fail: true} }
	// Four failures among the first ten, and six in all, of 14.
	mixed := []job{bad, ok, ok, bad, ok, bad, ok, ok, bad, ok, bad, bad, ok, ok}
	return map[string]haltCase{
		"never": {halt: "never", at: 2, jobs: []job{bad, ok, bad, ok}, want: outcome{first(4), nil, true}},
		"soon at the first failure": {halt: "soon,fail=1", at: 2, jobs: []job{waitBad(1), wait(3), ok, ok},
			want: outcome{first(2), nil, true}},
		"now at the first failure": {halt: "now,fail=1", at: 2, jobs: []job{waitBad(1), wait(20), ok, ok},
			want: outcome{[]int{1}, []int{2}, true}},
		"now at the first failure, which is not the first job": {halt: "now,fail=1", at: 2,
			jobs: []job{wait(20), waitBad(1), ok}, want: outcome{[]int{2}, []int{1}, true}, lost: []int{2}},
		"soon at the second failure": {halt: "soon,fail=2", at: 1, jobs: []job{ok, bad, ok, bad, ok},
			want: outcome{first(4), nil, true}},
		"more failures than there are": {halt: "soon,fail=9", at: 1, jobs: []job{bad, ok},
			want: outcome{first(2), nil, true}},
		"none fails": {halt: "now,fail=1", at: 2, jobs: []job{ok, ok, ok},
			want: outcome{first(3), nil, false}},
		"now at the first success": {halt: "now,success=1", at: 2, jobs: []job{wait(1), wait(20), ok},
			want: outcome{[]int{1}, []int{2}, false}},
		"now at the first success, after a failure": {halt: "now,success=1", at: 2,
			jobs: []job{bad, wait(20), wait(1), ok},
			want: outcome{[]int{1, 3}, []int{2}, false}, lost: []int{3}},
		"soon at the first success": {halt: "soon,success=1", at: 2, jobs: []job{wait(1), wait(3), ok},
			want: outcome{first(2), nil, false}},
		"soon at the second success": {halt: "soon,success=2", at: 1, jobs: []job{ok, bad, ok, ok},
			want: outcome{first(3), nil, false}},
		"not enough successes": {halt: "now,success=3", at: 1, jobs: []job{ok, bad, ok},
			want: outcome{first(3), nil, true}},
		"half of all succeed": {halt: "soon,success=50%", at: 1, jobs: []job{bad, ok, ok, bad, ok, ok, ok, ok},
			want: outcome{first(6), nil, false}},
		"soon when two are done": {halt: "soon,done=2", at: 1, jobs: []job{ok, ok, ok}, anyCode: true,
			want: outcome{first(2), nil, false}},
		"soon when two are done, with a failure": {halt: "soon,done=2", at: 1, jobs: []job{ok, bad, ok},
			want: outcome{first(2), nil, true}},
		"now when one is done": {halt: "now,done=1", at: 2, jobs: []job{wait(20), wait(1), ok},
			want: outcome{[]int{2}, []int{1}, false}, lost: []int{2}},
		"when half are done": {halt: "now,done=50%", at: 1, jobs: []job{ok, ok, ok, ok, ok},
			want: outcome{first(3), nil, false}},
		"a share of failures": {halt: "soon,fail=40%", at: 1, jobs: mixed,
			want:     outcome{first(10), nil, true},
			parallel: &outcome{first(12), nil, true}, // 40 % of 14 are 5.6 jobs
			why: "a share of what has ended, not of all: if the model server breaks in a long night, the batch " +
				"ends early",
		},
		"a share of failures of a short list": {halt: "soon,fail=30%", at: 1, jobs: []job{bad, ok, bad, ok, ok, ok},
			want:     outcome{first(6), nil, true},
			parallel: &outcome{first(3), nil, true},
			why:      "a share says something from ten ended tasks on",
		},
		"soon when one is done, and another one fails then": {halt: "soon,done=1", at: 2,
			jobs: []job{wait(1), waitBad(3), ok}, want: outcome{first(2), nil, true},
			parallel: &outcome{first(2), nil, false},
			why:      "no failure may look like a success; parallel takes the exit code of the first job",
		},
		"soon alone": {halt: "soon", at: 1, jobs: []job{ok, bad, ok}, want: outcome{first(2), nil, true},
			parallel: &outcome{nil, nil, true}, why: "parallel refuses it: what was meant is clear",
		},
	}
}

// TestHalt: what runs to its end, what is killed, what is never started, what is printed and logged, and whether the
// exit code is one of a failure.
func TestHalt(t *testing.T) {
	t.Parallel()
	for name, c := range haltCases() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			flags := []string{"-k", "-j", fmt.Sprint(c.at), "--halt", c.halt, "--joblog", "log"}
			theirs, ours := newShell(t, c.jobs).run(t, flags...), newAgents(t, c.jobs).run(t, flags...)
			want := c.want
			if c.parallel != nil {
				want = *c.parallel
				assert.NotEqual(t, c.want, want)
				assert.NotEmpty(t, c.why)
			}
			got := outcome{theirs.ended, theirs.killed(), theirs.code != 0}
			if c.anyCode {
				got.fails = want.fails
			}
			assert.Equal(t, want, got, "parallel: %s", theirs.problem)
			assert.Equal(t, c.want, outcome{ours.ended, ours.killed(), ours.code != 0}, "qq: %s", ours.problem)
			checkOutput(t, c.jobs, ours)
			checkLog(t, c.jobs, ours)
			if c.parallel == nil {
				out, log := answers(ours.out), summary(ours)
				for _, n := range c.lost {
					out = strings.Replace(out, fmt.Sprintf("answer %d\n", n), "", 1)
					delete(log, n)
				}
				assert.Equal(t, theirs.out, out)
				assert.Equal(t, summary(theirs), log)
			}
		})
	}
}

// checkOutput: each task has one line, its answer or why there is none.
func checkOutput(t *testing.T, jobs []job, r run) {
	t.Helper()
	lines := strings.Split(strings.TrimSuffix(r.out, "\n"), "\n")
	require.Len(t, lines, len(jobs), r.out)
	for i, j := range jobs {
		switch {
		case !slices.Contains(r.ended, i+1):
			assert.Regexp(t, fmt.Sprintf(`^\[task %d (not started|cancelled): (a task failed|(too many|enough) tasks )`, i+1),
				lines[i])
		case j.fail:
			assert.Regexp(t, fmt.Sprintf(`^\[task %d failed: empty_answer: `, i+1), lines[i])
		default:
			assert.Equal(t, fmt.Sprintf("answer %d", i+1), lines[i])
		}
	}
}

// checkLog: the columns of the job log say what happened.
func checkLog(t *testing.T, jobs []job, r run) {
	t.Helper()
	for _, l := range r.log {
		j := jobs[l.seq-1]
		assert.Equal(t, j.fail, l.failed(), l)
		assert.Zero(t, l.signal)
		assert.Zero(t, l.send)
		assert.Equal(t, fmt.Sprintf("Do [[job%d]]", l.seq), l.command)
		if !j.fail {
			assert.Equal(t, len(fmt.Sprintf("answer %d", l.seq)), l.receive, "parallel counts the end of the line too")
		}
		assert.GreaterOrEqual(t, l.took, (time.Duration(j.wait)*unit).Seconds()-0.02)
		assert.InDelta(t, float64(time.Now().Unix()), l.start, 120)
	}
	assert.True(t, slices.IsSortedFunc(r.log, func(a, b logged) int { return a.seq - b.seq }),
		"parallel writes a line when a job ends; qq when its result is printed, which is in the order of the input")
}

// summary says for each job of the log whether it failed.
func summary(r run) map[int]bool {
	all := map[int]bool{}
	for n, l := range last(r.log) {
		all[n] = l.failed()
	}
	return all
}

// TestOrder: results come in the order of the input, however long each takes, as with -k.
func TestOrder(t *testing.T) {
	t.Parallel()
	jobs := []job{{wait: 5}, {wait: 3}, {wait: 4}, {wait: 1}, {wait: 2}, ok}
	theirs, ours := newShell(t, jobs).run(t, "-k", "-j", "3"), newAgents(t, jobs).run(t, "-k", "-j", "3")
	assert.Equal(t, "answer 1\nanswer 2\nanswer 3\nanswer 4\nanswer 5\nanswer 6\n", theirs.out)
	assert.Equal(t, theirs.out, ours.out)
	assert.Equal(t, theirs.code, ours.code)
	assert.Equal(t, ours.out, newAgents(t, jobs).run(t, "-j", "6").out,
		"without -k too; in parallel the fastest comes first")
}

// TestTag: the input and a tab before each line.
func TestTag(t *testing.T) {
	t.Parallel()
	jobs := []job{{wait: 2}, ok, bad, ok}
	theirs, ours := newShell(t, jobs).run(t, "-k", "--tag"), newAgents(t, jobs).run(t, "-k", "--tag")
	assert.Equal(t, "1\tanswer 1\n2\tanswer 2\n4\tanswer 4\n", theirs.out)
	const failed = "3\t[task 3 failed: empty_answer: the agent gave an empty answer]\n"
	assert.Contains(t, ours.out, failed)
	assert.Equal(t, theirs.out, strings.Replace(ours.out, failed, "", 1),
		"qq says in the output that a task has failed")
}

// TestExitCode: parallel counts the failed jobs, qq has one code for some failed tasks.
func TestExitCode(t *testing.T) {
	t.Parallel()
	for failures, want := range map[int][2]int{0: {0, 0}, 1: {1, 4}, 3: {3, 4}} {
		jobs := append(slices.Repeat([]job{bad}, failures), ok)
		assert.Equal(t, want[0], newShell(t, jobs).run(t, "-j", "2").code, failures)
		assert.Equal(t, want[1], newAgents(t, jobs).run(t, "-j", "2").code, failures)
	}
}

// TestJobs: how many jobs run at once with each notation of -j.
func TestJobs(t *testing.T) {
	cpus := runtime.NumCPU()
	jobs := slices.Repeat([]job{{wait: 2}}, cpus+2)
	for _, j := range []string{"+1", "+0", "-1", "50%", "30%"} {
		t.Run(j, func(t *testing.T) {
			theirs, ours := newShell(t, jobs), newAgents(t, jobs)
			a := theirs.run(t, "-k", "-j", j, "--joblog", "log")
			b := ours.run(t, "-k", "-j", j, "--joblog", "log")
			assert.Equal(t, most(a.log), most(b.log), "%v\n%v", a.log, b.log)
			if cpus > 1 {
				assert.Equal(t, map[string]int{"+1": cpus + 1, "+0": cpus, "-1": cpus - 1, "50%": (cpus + 1) / 2,
					"30%": int(math.Ceil(0.3 * float64(cpus)))}[j], most(b.log))
			}
		})
	}
}

// most is how many of the jobs of a log ran at the same time, in the middle of one of them.
func most(log []logged) int {
	most := 0
	for _, at := range log {
		n := 0
		for _, l := range log {
			if middle := at.start + at.took/2; l.start <= middle && middle < l.start+l.took {
				n++
			}
		}
		most = max(most, n)
	}
	return most
}

// TestDelay: the time between two starts.
func TestDelay(t *testing.T) {
	t.Parallel()
	jobs := []job{ok, ok, ok, ok}
	for _, s := range []side{newShell(t, jobs), newAgents(t, jobs)} {
		r := s.run(t, "-k", "-j", "4", "--delay", "0.4", "--joblog", "log")
		require.Len(t, r.log, 4)
		for i := range 3 {
			assert.Greater(t, r.log[i+1].start-r.log[i].start, 0.2, "about 0.4")
		}
	}
}

// TestResume: what --resume and --resume-failed run again, with the same job log.
func TestResume(t *testing.T) {
	t.Parallel()
	jobs := []job{ok, bad, ok, bad, ok}
	theirs, ours := newShell(t, jobs), newAgents(t, jobs)
	for _, step := range []struct {
		flags   []string
		started []int
		// out is what parallel prints now; ours is all that qq has then, from earlier runs too
		out, ours string
	}{
		{[]string{"--halt", "soon,fail=1"}, first(2), "answer 1\n", "answer 1\n"},
		{[]string{"--resume"}, []int{3, 4, 5}, "answer 3\nanswer 5\n", "answer 1\nanswer 3\nanswer 5\n"},
		{[]string{"--resume"}, nil, "", "answer 1\nanswer 3\nanswer 5\n"},
		{[]string{"--resume-failed"}, []int{2, 4}, "", "answer 1\nanswer 3\nanswer 5\n"},
	} {
		flags := append([]string{"-k", "-j", "1", "--joblog", "log"}, step.flags...)
		a, b := theirs.run(t, flags...), ours.run(t, flags...)
		assert.Equal(t, step.started, a.started, "%v: parallel: %s", step.flags, a.problem)
		assert.Equal(t, step.started, b.started, "%v: qq: %s", step.flags, b.problem)
		assert.Equal(t, step.out, a.out, step.flags)
		assert.Equal(t, step.ours, answers(b.out), "%v: qq prints all results, so that -o FILE is whole", step.flags)
		assert.Equal(t, summary(a), summary(b), "%v: what the last line of each job says", step.flags)
		assert.Len(t, b.log, len(last(b.log)), "qq writes the log again; parallel appends to it")
	}
	// parallel continues from a log that qq has written.
	theirs.jobs = jobs
	const times = "\tqq:x\t1795273621.744\t     0.003\t0\t15\t"
	const text = header + "\n1" + times + "0\t0\tDo it\n2" + times + "124\t0\tDo it\n"
	theirs.write(t, "log", text)
	assert.Equal(t, []int{3, 4, 5}, theirs.run(t, "-j", "1", "--joblog", "log", "--resume").started)
	theirs.write(t, "log", text)
	assert.Equal(t, []int{2, 3, 4, 5}, theirs.run(t, "-j", "1", "--joblog", "log", "--resume-failed").started)
}

// TestFlags: whatever flag of GNU parallel somebody types, qq batch has it, or says what to write instead.
func TestFlags(t *testing.T) {
	t.Parallel()
	theirs, ours := newShell(t, nil), newAgents(t, nil)
	r := theirs.exec(t, "", theirs.path, "--shell-completion", "bash")
	require.Zero(t, r.code, r.problem)
	_, list, _ := strings.Cut(r.out, `-W "`)
	list, _, _ = strings.Cut(list, `"`)
	flags := strings.Fields(list)
	require.Greater(t, len(flags), 100)
	have := 0
	for _, f := range flags {
		r := ours.exec(t, "", qq, "batch", f)
		if !strings.HasPrefix(r.problem, "qq: unknown flag: ") {
			have++
			continue
		}
		assert.Regexp(t, `\n  hint: (write|not offered|not needed|did you mean)`, r.problem)
	}
	assert.Greater(t, have, 25)
}
