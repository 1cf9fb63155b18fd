package supervisor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"qq/pkg/supervisor/halt"
	"qq/pkg/task"
)

// node is what one task of a random tree does: it works, hands on each of its
// groups (all at once or one after the other), works again, and ends.
type node struct {
	before, after time.Duration
	groups        [][]int // children, by number
	atOnce        bool
	end           string // "ok", "fail", "panic"
	deaths        int    // attempts that die before the end
	effects       bool   // of each attempt
	idempotent    bool
	queue         time.Duration // spent waiting for others before it works
	answer        string        // "known", "refused" or "" for a task of the batch
	linger        time.Duration // how long it takes to end when it is told to
	timeout       float64
}

// drawn is a random tree of tasks and what happens to it.
type drawn struct {
	nodes   []node
	roots   []int
	limits  task.Limits
	stager  bool
	halt    halt.Policy
	stop    time.Duration // after which no more are started; 0 is never
	cancel  time.Duration // after which the tree is cancelled
	pick    time.Duration // after which one child is cancelled
	deliver int           // results that are taken before nobody takes them any more; 0 is all
	record  string        // "", "good", or what fails now and then: "claim" or "finish"
	failing int           // the number of the record that fails
	slow    time.Duration // how long it takes to record an end
}

// calm reports whether nothing but its own end can end a task.
func (p *drawn) calm() bool {
	return p.halt == halt.Policy{} && p.stop+p.cancel+p.pick+p.limits.ChildTimeout+p.limits.IdleTimeout == 0 &&
		p.deliver == 0 &&
		(p.record == "" || p.record == "good") &&
		!slices.ContainsFunc(p.nodes, func(n node) bool { return n.timeout > 0 })
}

// busy reports whether, on top of that, nobody waits for anything but a slot,
// and all tasks are launched exactly once.
func (p *drawn) busy() bool {
	return p.calm() && p.slow == 0 &&
		!slices.ContainsFunc(p.nodes, func(n node) bool { return n.deaths > 0 || n.answer != "" })
}

func drawPlan(t *rapid.T) *drawn {
	sometimes := func(name string, most int) time.Duration {
		if rapid.IntRange(0, 3).Draw(t, name+"?") > 0 {
			return 0
		}
		return time.Duration(rapid.IntRange(1, most).Draw(t, name)) * time.Second / 2
	}
	p := &drawn{
		limits: task.Limits{
			MaxParallel: rapid.IntRange(1, 4).Draw(t, "cap"), MaxDepth: rapid.IntRange(1, 6).Draw(t, "depth"),
			MaxChildren:  rapid.SampledFrom([]int{3, 1000, 1000}).Draw(t, "children"),
			ChildTimeout: sometimes("child timeout", 20),
			IdleTimeout:  sometimes("idle timeout", 10), Retries: rapid.IntRange(0, 2).Draw(t, "retries"),
		},
		record:  rapid.SampledFrom([]string{"", "good", "good", "claim", "finish"}).Draw(t, "record"),
		failing: rapid.IntRange(1, 10).Draw(t, "failing"), slow: sometimes("slow", 4),
		stager: rapid.Bool().Draw(t, "stager"), stop: sometimes("stop", 20), cancel: sometimes("cancel", 20),
		pick: sometimes("pick", 20),
	}
	if rapid.IntRange(0, 3).Draw(t, "halt?") == 0 {
		p.halt = halt.Policy{Now: rapid.Bool().Draw(t, "now"), Fail: rapid.IntRange(1, 3).Draw(t, "fail")}
	}
	if rapid.IntRange(0, 5).Draw(t, "deliver?") == 0 {
		p.deliver = rapid.IntRange(1, 3).Draw(t, "deliver")
	}
	p.roots = p.drawGroup(t, 3, 8)
	for _, i := range p.roots {
		p.nodes[i].answer = rapid.SampledFrom([]string{"", "", "", "", "", "known", "refused"}).Draw(t, "answer")
	}
	return p
}

// drawGroup adds up to most nodes with levels below them, and returns their
// numbers.
func (p *drawn) drawGroup(t *rapid.T, levels, most int) (group []int) {
	half := func(name string) time.Duration {
		return time.Duration(rapid.IntRange(0, 4).Draw(t, name)) * time.Second / 2
	}
	for range rapid.IntRange(0, most).Draw(t, "tasks") {
		n := node{
			before: half(
				"before",
			), after: half("after"), atOnce: rapid.Bool().Draw(t, "at once"), linger: half("linger") / 5,
			end: rapid.SampledFrom([]string{"ok", "ok", "ok", "fail", "panic"}).Draw(t, "end"),
		}
		if rapid.IntRange(0, 4).Draw(t, "dies?") == 0 {
			n.deaths = rapid.IntRange(1, 3).Draw(t, "deaths")
		}
		if rapid.IntRange(0, 4).Draw(t, "queues?") == 0 {
			n.queue = half("queue")
		}
		n.effects, n.idempotent = rapid.IntRange(0, 4).Draw(t, "effects?") == 0, rapid.Bool().Draw(t, "idempotent")
		if rapid.IntRange(0, 9).Draw(t, "timeout?") == 0 {
			n.timeout = float64(rapid.IntRange(1, 6).Draw(t, "timeout")) / 4
		}
		if levels > 0 && rapid.IntRange(0, 2).Draw(t, "leaf?") == 0 {
			for range rapid.IntRange(1, 2).Draw(t, "groups") {
				n.groups = append(n.groups, p.drawGroup(t, levels-1, 3))
			}
		}
		p.nodes = append(p.nodes, n)
		group = append(group, len(p.nodes)-1)
	}
	return group
}

func (p *drawn) tasks(group []int) (tasks []task.Task) {
	for _, i := range group {
		tasks = append(tasks, task.Task{Text: strconv.Itoa(i), ID: strconv.Itoa(i), Timeout: p.nodes[i].timeout,
			Idempotent: p.nodes[i].idempotent})
	}
	return tasks
}

// play carries a plan out, as Launcher, and writes down what it sees.
type play struct {
	*drawn
	mu       sync.Mutex
	launched map[int]int
	attempts map[string]int // by execution
	claimed  map[string]int
	finished map[string]int
	records  map[string]int // how often each kind was recorded
	atWork   int
	maxWork  int
	worked   time.Duration
	results  []task.Result   // of the batch
	done     int             // calls of Done
	groups   [][]task.Result // of each group that was delegated
	wrong    []string
	started  map[string]int
	ended    map[string]int
	staged   int
	settled  int // of those that were staged
	took     time.Duration
	err      error
	sup      *Supervisor
}

func (p *play) note(format string, args ...any) {
	p.wrong = append(p.wrong, fmt.Sprintf(format, args...))
}

func (p *play) work(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.atWork += n
	p.maxWork = max(p.maxWork, p.atWork)
}

// does spends d, and reports whether it was not told to end meanwhile.
func (p *play) does(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.worked += d
	return ctx.Err() == nil
}

func (p *play) Launch(ctx context.Context, job task.Job, up Parent) task.Result {
	i, err := strconv.Atoi(job.Text)
	if err != nil {
		panic(err)
	}
	n := p.nodes[i]
	p.mu.Lock()
	p.launched[i]++
	if p.attempts[job.ExecutionID]++; p.attempts[job.ExecutionID] != job.Attempt || job.Attempt > 1+p.limits.Retries {
		p.note("launch %d of %s is attempt %d", p.attempts[job.ExecutionID], job.ExecutionID, job.Attempt)
	}
	if p.record != "" && p.claimed[job.ExecutionID] != 1 {
		p.note("%s is launched and not claimed", job.ExecutionID)
	}
	p.mu.Unlock()
	r := p.acts(ctx, job, n, up)
	r.Effects = n.effects
	return r
}

// acts does what n says.
func (p *play) acts(ctx context.Context, job task.Job, n node, up Parent) task.Result {
	p.work(1)
	up.(*handle).queue(func() { p.does(ctx, n.queue) })
	ok := p.does(ctx, n.before)
	p.work(-1)
	if ok && len(n.groups) > 0 {
		p.delegate(ctx, job, n, up)
		ok = ctx.Err() == nil
	}
	if ok { // else it has its slot no more, and does nothing but end
		p.work(1)
		ok = p.does(ctx, n.after)
		p.work(-1)
	}
	switch {
	case !ok:
		time.Sleep(n.linger)
		return job.Ended(task.Killed, "told to end")
	case job.Attempt <= n.deaths:
		return job.Ended([]task.Status{task.Killed, task.NoResult}[job.Attempt%2], "died")
	case n.end == "panic":
		panic("as told")
	case n.end == "fail":
		return job.Ended(task.Failed, "as told")
	}
	return job.Ended(task.Completed, "")
}

func (p *play) delegate(ctx context.Context, job task.Job, n node, up Parent) {
	one := func(group []int) {
		results := up.Delegate(ctx, p.tasks(group))
		p.mu.Lock()
		defer p.mu.Unlock()
		p.groups = append(p.groups, results)
		p.inOrder(group, results)
		for _, r := range results {
			if r.Attempts > 0 && r.ParentExecutionID != job.ExecutionID {
				p.note("%s has the parent %q", r.ID, r.ParentExecutionID)
			}
		}
	}
	var wg sync.WaitGroup
	for _, group := range n.groups {
		if n.atOnce {
			wg.Go(func() { one(group) })
			continue
		}
		one(group)
	}
	wg.Wait()
}

// inOrder notes where results are not those of group, one for each in its order.
func (p *play) inOrder(group []int, results []task.Result) {
	if len(results) != len(group) {
		p.note("%d results for %d tasks", len(results), len(group))
		return
	}
	for k, r := range results {
		if r.Index != k || r.ID != strconv.Itoa(group[k]) {
			p.note("result %d is of task %s, index %d", k, r.ID, r.Index)
		}
	}
}

// recording is a play that keeps a record.
type recording struct{ *play }

var errFull = errors.New("disk full")

// recorded counts one record, and fails when that is the one.
func (p recording) recorded(kind string, count map[string]int, id string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.records[kind]++
	if kind == p.record && p.records[kind] == p.failing {
		return errFull
	}
	count[id]++
	return nil
}

func (p recording) Claim(job task.Job) error {
	return p.recorded("claim", p.claimed, job.ExecutionID)
}

func (p recording) Attempt(job task.Job, _ time.Time, r task.Result) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.attempts[job.ExecutionID] != job.Attempt || r.Attempts != 1 || r.ExecutionID != job.ExecutionID {
		p.note("attempt %d of %s is recorded after %d", job.Attempt, job.ExecutionID, p.attempts[job.ExecutionID])
	}
}

func (p recording) Effects(task.Job) error { return nil }

func (p recording) Finish(job task.Job, r task.Result) error {
	<-time.After(p.slow)
	if r.Attempts != job.Attempt {
		p.note("%s finishes after %d attempts, says %d", job.ExecutionID, job.Attempt, r.Attempts)
	}
	return p.recorded("finish", p.finished, job.ExecutionID)
}

// stagingPlay is a play that can get ready.
type stagingPlay struct{ *play }

func (p stagingPlay) Stage(task.Job) Staged {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.staged++
	return stagedPlay(p)
}

type stagedPlay struct{ *play }

func (p stagedPlay) Discard() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.settled++
}

func (p stagedPlay) Launch(ctx context.Context, job task.Job, up Parent) task.Result {
	p.Discard()
	return p.play.Launch(ctx, job, up)
}

// perform runs p. It must be called in a bubble, which sees to it that
// everything ends and no goroutine is left.
func (p *play) perform(ctx context.Context) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var l Launcher = p
	if p.stager {
		l = stagingPlay{p}
	}
	next := 0
	p.sup = New(Config{
		Limits: Limits{Limits: p.limits}, Launcher: l, Agents: anybody{}, Gate: gate(p.refusal), Log: announcements{p},
		NewID: func() string {
			p.mu.Lock()
			defer p.mu.Unlock()
			next++
			return fmt.Sprint("x", next)
		},
	})
	if p.record != "" {
		p.sup.cfg.Record = recording{p}
	}
	stop := make(chan struct{})
	for after, do := range map[*time.Duration]func(){
		&p.stop: func() { close(stop) }, &p.cancel: func() { cancel(errors.New("Ctrl-C")) }, &p.pick: p.cancelOne,
	} {
		if *after > 0 {
			timer := time.AfterFunc(*after+time.Millisecond, do)
			defer timer.Stop()
		}
	}
	start := time.Now()
	p.err = p.sup.Batch(ctx, Batch{
		Tasks: func(yield func(task.Task, error) bool) {
			for _, t := range p.tasks(p.roots) {
				if !yield(t, nil) {
					return
				}
			}
		},
		Results: sink{p.take, func(task.Result) { p.done++ }}, Halt: halt.New(p.halt, 0), Stop: stop,
		Past: past(func(index int, t task.Task) (task.Result, bool) {
			r := t.Ended(task.Completed, "")
			r.Output = "known"
			return r, p.nodes[p.roots[index]].answer == "known"
		}),
	})
	p.took = time.Since(start)
}

// take is what becomes of the results of the batch.
func (p *play) take(r task.Result) error {
	if p.deliver > 0 && len(p.results) == p.deliver {
		return errClosed
	}
	p.results = append(p.results, r)
	return nil
}

func (p *play) refusal(t task.Task) error {
	if i, _ := strconv.Atoi(t.ID); p.nodes[i].answer != "refused" {
		return nil
	}
	return errors.New("refused")
}

var errClosed = errors.New("nobody takes it")

// announcements are a Log that counts.
type announcements struct{ *play }

func (p announcements) Spawned(id, _ string, _ int, _ string) { p.tell(p.started, id) }
func (p announcements) Completed(id string, _ bool, _ int)    { p.tell(p.ended, id) }
func (p announcements) Dispatched(string, int, []string)      {}
func (p announcements) Failed(string, string)                 {}

func (p *play) tell(count map[string]int, id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	count[id]++
}

func (p *play) cancelOne() {
	if all := p.sup.Jobs(); len(all) > 0 { // running or queued
		p.sup.Cancel(all[len(all)/2].ExecutionID)
	}
}

// Whatever the tree is and whatever befalls it: each task has exactly one
// result, in its place; never more than the cap are at work; what starts was
// claimed, and what was claimed is finished, once; it ends, and nothing is left
// of it.
func TestAnyTree(t *testing.T) {
	for range 5 { // a hundred trees each time
		rapid.Check(t, func(rt *rapid.T) { anyTree(t, rt) })
	}
}

func anyTree(t *testing.T, rt *rapid.T) {
	p := &play{
		drawn: drawPlan(rt), launched: map[int]int{}, started: map[string]int{}, ended: map[string]int{},
		attempts: map[string]int{}, claimed: map[string]int{}, finished: map[string]int{}, records: map[string]int{},
	}
	synctest.Test(t, func(t *testing.T) { p.perform(t.Context()) })

	assert.Empty(rt, p.wrong)
	assert.LessOrEqual(rt, p.maxWork, p.limits.MaxParallel)
	if errors.Is(p.err, errClosed) {
		assert.Len(rt, p.results, p.deliver)
		p.inOrder(p.roots[:len(p.results)], p.results)
	} else {
		if !errors.Is(p.err, errFull) {
			require.NoError(rt, p.err)
		}
		p.inOrder(p.roots, p.results)
		assert.Equal(rt, len(p.roots), p.done)
	}
	assert.Empty(rt, p.wrong)

	ran := map[int]int{}
	for _, r := range slices.Concat(append(p.groups, p.results)...) {
		p.checkResult(rt, r, ran)
	}
	if !errors.Is(p.err, errClosed) {
		assert.Equal(rt, p.launched, ran, "who was launched has a result that says so, and nobody else")
	}
	p.checkCounts(rt)
	if p.busy() && p.limits.MaxDepth > 4 && p.limits.MaxChildren >= len(p.nodes) {
		assert.Len(rt, p.launched, len(p.nodes))
	}
	if p.busy() {
		assert.LessOrEqual(rt, p.took, p.worked, "somebody is at work at any time")
		assert.GreaterOrEqual(rt, p.took*time.Duration(p.limits.MaxParallel), p.worked)
	}

	assert.Equal(rt, p.staged, p.settled, "what was made ready is used or discarded")
	assert.Equal(rt, p.limits.MaxParallel, free(p.sup), "all slots are free again")
	_, waiting := p.sup.slots.Free()
	assert.Zero(rt, waiting)
	assert.Empty(rt, p.sup.Jobs())
}

// checkCounts checks that whoever was launched was started, ended, claimed and
// finished once, and nobody else.
func (p *play) checkCounts(t *rapid.T) {
	counts := []map[string]int{p.started, p.ended}
	if p.record != "" {
		counts = append(counts, p.claimed)
		if p.record != "finish" {
			counts = append(counts, p.finished)
		}
	}
	for _, count := range counts {
		assert.Len(t, count, len(p.attempts))
		for id, n := range count {
			assert.Equal(t, 1, n, id)
		}
	}
	if p.record == "finish" {
		assert.Equal(t, len(p.attempts), p.records["finish"], "also that which failed")
	}
}

// checkResult checks one result by itself, and counts its attempts in ran when
// it is of a task that was launched.
func (p *play) checkResult(t *rapid.T, r task.Result, ran map[int]int) {
	i, err := strconv.Atoi(r.ID)
	require.NoError(t, err)
	n := p.nodes[i]
	assert.Equal(t, r.Status == task.Completed, r.Success)
	if r.Attempts == 0 {
		never := []task.Status{task.Cancelled, task.Limit}
		switch {
		case n.answer == "known":
			never = []task.Status{task.Completed}
		case n.answer == "refused":
			never = append(never, task.Unavailable)
		case p.record == "claim":
			never = append(never, task.Failed, task.Timeout, task.Idle) // its time ended while it waited
		}
		assert.Contains(t, never, r.Status, r.Err())
		assert.Zero(t, p.attempts[r.ExecutionID], "task %d was launched, and its result denies it", i)
		return
	}
	ran[i] += r.Attempts
	assert.Equal(t, p.attempts[r.ExecutionID], r.Attempts)
	assert.Empty(t, n.answer, "neither a known nor a refused task runs")
	want := p.endings(n)
	if !p.calm() {
		want = append(want, task.Timeout, task.Idle, task.Cancelled, task.Interrupted)
	}
	if strings.HasPrefix(r.Err(), "Maximum ") { // what it could do without that child is there
		want = append(want, task.Limit)
	}
	assert.Contains(t, want, r.Status, r.Err())
	// These wait for a slot again.
	queues := slices.ContainsFunc(p.nodes, func(n node) bool { return n.queue > 0 || n.deaths > 0 })
	if limit := p.limits.ChildTimeout; limit > 0 && n.timeout == 0 && !queues {
		assert.LessOrEqual(t, r.DurationMS, (limit + longestEnd + 4*p.slow).Milliseconds(),
			"task %d ran on after its deadline", i)
	}
}

// endings is how n can end by itself.
func (p *play) endings(n node) []task.Status {
	lived := map[string]task.Status{"ok": task.Completed, "fail": task.Failed, "panic": task.Failed}[n.end]
	died := []task.Status{task.Killed, task.NoResult}
	switch {
	case n.deaths == 0:
		return []task.Status{lived}
	case n.idempotent && n.deaths > p.limits.Retries:
		return died
	case n.idempotent && p.calm():
		return []task.Status{lived}
	case n.effects && !n.idempotent:
		return []task.Status{task.UnknownOutcome}
	}
	return append(died, lived, task.UnknownOutcome) // that depends on those below
}

// longestEnd is what the children of a tree need to end, one level after the
// other.
const longestEnd = 4 * 400 * time.Millisecond
