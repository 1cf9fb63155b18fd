package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// saga is one batch that is resumed again and again until all of it is done.
type saga struct {
	s       *stage
	name    string // of its tasks
	n       int
	length  int // of a task
	tasks   string
	out     string
	joblog  string
	want    string         // the output of an undisturbed run
	begun   bool           // something of it was recorded
	asked   int            // chats that were looked at
	done    map[int]string // where the result of a task was recorded
	resume  string         // the flag to go on with
	kills   int
	started time.Time
}

// newSaga writes the tasks and runs them undisturbed, in another home folder.
func (s *stage) newSaga(name string, n, length int) (*saga, error) {
	g := &saga{s: s, name: name, n: n, length: length, done: map[int]string{}, resume: "--resume",
		out: filepath.Join(s.work, name+".out"), joblog: filepath.Join(s.work, name+".joblog")}
	var err error
	if g.tasks, err = s.tasks(name, n, length); err != nil {
		return nil, err
	}
	elsewhere := filepath.Join(s.dir, "undisturbed")
	out := filepath.Join(s.dir, name+".want")
	p, err := s.start([]string{"QQ_HOME=" + elsewhere}, "batch", "--model", "ollama:echo5", "-j", "4", "--no-bar", "-o",
		out, g.tasks)
	if err != nil {
		return nil, err
	}
	e, err := p.wait()
	if err != nil {
		return nil, err
	}
	if e.code != 0 {
		return nil, fmt.Errorf("the undisturbed run: exit code %d: %.500s", e.code, e.stderr)
	}
	b, err := os.ReadFile(out)
	g.want = string(b)
	s.expect(strings.Count(g.want, "\n") == n, "the undisturbed run wrote %d answers for %d tasks",
		strings.Count(g.want, "\n"), n)
	s.server.Forget()
	g.started = time.Now()
	return g, err
}

// start begins the batch, or resumes it.
func (g *saga) start() (*process, error) {
	args := []string{"batch", "--model", "ollama:echo5", "-j", "4", "--no-bar", "--joblog", g.joblog, "-o", g.out}
	if g.begun {
		args = append(args, g.resume)
	}
	return g.s.start(nil, append(args, g.tasks)...)
}

// answer returns the expected answer to the i-th task.
func (g *saga) answer(i int) string { return "You said: " + taskText(g.name, i, g.length) }

// look counts the tasks that were requested again although their result had been recorded, and
// notes which results are recorded now: those in the output or in the job log. No qq may be
// running.
func (g *saga) look() error {
	chats := g.s.server.Chats()
	for _, c := range chats[g.asked:] {
		var i int
		if _, err := fmt.Sscanf(c.Task, "Task %d of "+g.name, &i); err != nil {
			continue // of another batch
		}
		if where := g.done[i]; where != "" {
			g.s.row.doubled++
			g.s.expect(false, "task %d was asked for again, though its result stood in %s", i, filepath.Base(where))
		}
	}
	g.asked = len(chats)
	if g.asked > 0 {
		g.begun = true
	}
	for _, path := range []string{g.out, g.joblog} {
		b, err := os.ReadFile(path)
		if os.IsNotExist(err) {
			continue
		} else if err != nil {
			return err
		}
		for text := range strings.Lines(string(b)) {
			if !strings.HasSuffix(text, "\n") {
				continue // half a line
			}
			var i int
			if _, err := fmt.Sscanf(text, "You said: Task %d of ", &i); err == nil {
				g.done[i] = path
				g.s.expect(text == g.answer(i)+"\n", "the answer to task %d is %q", i, text)
			} else if f := strings.Split(text, "\t"); len(f) > 7 && f[6] == "0" && f[7] == "0" {
				if _, err := fmt.Sscan(f[0], &i); err == nil && g.done[i-1] == "" {
					g.done[i-1] = path
				}
			}
		}
	}
	return nil
}

// killAt starts the batch and kills the root a moment after so many more requests have come.
func (g *saga) killAt(requests int, later time.Duration) error {
	p, err := g.start()
	if err != nil {
		return err
	}
	if err := p.asked(g.s.server.Asked() + requests); err != nil {
		return err
	}
	<-time.After(later)
	_ = p.cmd.Process.Kill() // it may have ended
	e, err := p.wait()
	if err != nil {
		return err
	}
	g.s.gone()
	g.s.expect(e.code <= 0, "before it could be killed it ended with exit code %d: %.500q", e.code, e.stderr)
	g.kills++
	return g.look()
}

// finish resumes the batch to its end and compares the output with that of an undisturbed run.
// Then it resumes once more, when nothing is left to do.
func (g *saga) finish() error {
	p, err := g.start()
	if err != nil {
		return err
	}
	e, err := p.wait()
	if err != nil {
		return err
	}
	s := g.s
	s.expect(e.code == 0, "the last run: exit code %d: %.500q", e.code, e.stderr)
	if err := g.look(); err != nil {
		return err
	}
	b, err := os.ReadFile(g.out)
	if err != nil {
		return err
	}
	s.expect(string(b) == g.want, "the output (%d bytes) is not that of an undisturbed run (%d bytes)", len(b),
		len(g.want))
	took, requests := time.Since(g.started), s.server.Asked()
	again, list, err := s.batch(batch{tasks: g.tasks, model: "echo5", jobs: 4, flags: []string{"--resume"}})
	if err != nil {
		return err
	}
	s.expect(again.code == 0, "resumed when all was done: exit code %d: %.500q", again.code, again.stderr)
	s.expect(s.server.Asked() == requests, "%d requests when all was done, expected none",
		s.server.Asked()-requests)
	s.row.took = took
	s.row.lost += g.n
	for i, r := range list {
		if r.Status == "completed" && i < g.n && r.output() == g.answer(i) {
			s.row.lost--
		}
	}
	return nil
}

// rootKilled: the root is killed (SIGKILL) at random moments of a batch, sometimes before the
// first request, and resumed each time. Tasks under way may be requested again; tasks whose
// result was recorded may not. The output is byte for byte that of an undisturbed run.
func rootKilled(s *stage) error {
	g, err := s.newSaga("batch", s.pick(500, 50), 0)
	if err != nil {
		return err
	}
	kills := s.pick(50, 5)
	for k := range kills {
		requests, later := g.moment(s.random, kills, k)
		if err := g.killAt(requests, later); err != nil {
			return err
		}
	}
	if err := g.finish(); err != nil {
		return err
	}
	s.expect(s.row.requests <= g.n+4*kills, "%d requests, expected at most %d and 4 for each kill", s.row.requests, g.n)
	s.note("%d kills; %d requests for %d tasks", g.kills, s.row.requests, g.n)
	return nil
}

// moment picks a random moment for a kill: one in four is soon after the start; the others are
// near enough to each other that the batch never ends before the last.
func (g *saga) moment(r *rand.Rand, kills, k int) (requests int, later time.Duration) {
	if k%4 == 3 {
		return 0, time.Duration(r.IntN(60)) * time.Millisecond
	}
	return 1 + r.IntN(max(g.n/kills, 2)), time.Duration(r.IntN(5000)) * time.Microsecond
}

// diskFullAtHome: the disk with all of qq's files (the ledger and the answers of children)
// becomes full in the middle of a batch. qq says so and ends. When there is space again, the
// batch can be resumed.
func diskFullAtHome(s *stage) error {
	if err := s.smallDisk(s.home, "24m"); err != nil {
		return err
	}
	return s.fullForAWhile()
}

// diskFullAtLedger: the same with only the ledger on the full disk: children have space, and
// their answers are good.
func diskFullAtLedger(s *stage) error {
	if err := s.smallDisk(s.home, "24m"); err != nil {
		return err
	}
	for _, name := range []string{"run", "outputs"} {
		room := filepath.Join(s.dir, "room-"+name)
		if err := errors.Join(os.Mkdir(room, 0o700), os.Symlink(room, filepath.Join(s.home, name))); err != nil {
			return err
		}
	}
	return s.fullForAWhile()
}

// fullForAWhile fills the disk of the home folder in the middle of a batch, and frees it when qq
// has given up. No task counts as failed.
func (s *stage) fullForAWhile() error {
	s.env = append(s.env, faultWait)
	g, err := s.newSaga("batch", s.pick(300, 60), 0)
	if err != nil {
		return err
	}
	p, err := g.start()
	if err != nil {
		return err
	}
	if err := p.asked(20); err != nil {
		return err
	}
	filler := filepath.Join(s.home, "filler")
	if err := fill(filler); err != nil {
		return err
	}
	if err := g.stopsForSpace(p); err != nil {
		return err
	}
	if err := os.Remove(filler); err != nil {
		return err
	}
	return g.finish()
}

// diskFullAtOutput: the disk with the output file is full. qq says so and ends. It can be resumed
// with the output elsewhere.
func diskFullAtOutput(s *stage) error {
	disk := filepath.Join(s.work, "small")
	if err := s.smallDisk(disk, "8k"); err != nil {
		return err
	}
	const n = 200
	g, err := s.newSaga("batch", n, 200)
	if err != nil {
		return err
	}
	elsewhere := g.out
	g.out = filepath.Join(disk, "out")
	p, err := g.start()
	if err != nil {
		return err
	}
	if err := g.stopsForSpace(p); err != nil {
		return err
	}
	s.expect(s.server.Asked() < n, "%d requests, though nothing that comes of them can be written",
		s.server.Asked())
	g.out = elsewhere
	return g.finish()
}

// stopsForSpace expects that the batch ends early and says why.
func (g *saga) stopsForSpace(p *process) error {
	e, err := p.wait()
	if err != nil {
		return err
	}
	s := g.s
	s.expect(e.code > 0, "exit code %d with a full disk, expected a failure", e.code)
	s.expect(strings.Contains(e.stderr, "no space left") || strings.Contains(e.stderr, "is full\n"),
		"stderr does not tell of the full disk: %.500q", e.stderr)
	s.inTime(e.took, 0, 90*time.Second)
	s.note("with a full disk: exit code %d after %.2f s: %.120s", e.code, e.took.Seconds(),
		strings.SplitN(e.stderr, "\n", 2)[0])
	if err := g.look(); err != nil {
		return err
	}
	g.unrecorded(e)
	return nil
}

// unrecorded forgets the answers that were printed and could not be recorded: it was said that they will
// be asked for again.
func (g *saga) unrecorded(e ended) {
	for text := range strings.Lines(e.stderr) {
		var i int
		if _, err := fmt.Sscanf(text, "qq: task %d could not be recorded", &i); err == nil {
			delete(g.done, i-1)
		}
	}
}

// clockSetBack plays a clock that was a day ahead and then set right. Instead of setting the
// clock of the machine, it moves all times in the ledger and all times of files in the home a day
// ahead, while no qq runs. Two batches were broken off, the first before and the second after the
// change of the clock. Both can be resumed; the last batch is the one that was begun last,
// whatever its time says.
func clockSetBack(s *stage) error {
	if _, err := exec.LookPath("sqlite3"); err != nil {
		return skip("no sqlite3 to move the times of the ledger with")
	}
	first, err := s.newSaga("first", 40, 0)
	if err != nil {
		return err
	}
	if err := first.killAt(15, 0); err != nil {
		return err
	}
	look, err := s.start(nil, "runs") // fills the database from what the dead root left
	if err != nil {
		return err
	}
	if _, err := look.wait(); err != nil {
		return err
	}
	moved, err := s.ahead(24 * time.Hour)
	if err != nil {
		return err
	}
	s.expect(moved > 0, "the ledger holds no time of today")
	if err := first.finish(); err != nil {
		return err
	}
	second, err := s.newSaga("second", 40, 0)
	if err != nil {
		return err
	}
	if err := second.killAt(15, 0); err != nil {
		return err
	}
	s.note("%d times in the ledger were moved a day ahead", moved)
	return second.finish()
}

// ahead moves all times in the home ahead: those of files, and in the ledger every number near
// the present in seconds, milliseconds, microseconds or nanoseconds.
func (s *stage) ahead(by time.Duration) (moved int, err error) {
	ledger := filepath.Join(s.home, "ledger.db")
	if _, err := os.Stat(ledger); err != nil {
		return 0, err
	}
	columns, err := s.sql(ledger, `SELECT m.name || char(9) || p.name FROM sqlite_master m, `+
		`pragma_table_info(m.name) p WHERE m.type = 'table' AND m.name NOT LIKE 'sqlite_%'`)
	if err != nil {
		return 0, err
	}
	var script strings.Builder
	now := time.Now()
	for text := range strings.Lines(columns) {
		table, column, _ := strings.Cut(strings.TrimSpace(text), "\t")
		for unit := time.Second; unit >= time.Nanosecond; unit /= 1000 {
			at, near := now.UnixNano()/int64(unit), int64(time.Hour/unit)
			fmt.Fprintf(&script,
				"UPDATE %q SET %q = %q + %d WHERE typeof(%q) = 'integer' AND abs(%q - %d) < %d;\nSELECT changes();\n",
				table, column, column, int64(by/unit), column, column, at, near)
		}
		fmt.Fprintf(&script,
			"UPDATE %q SET %q = replace(%q, '%s', '%s') WHERE typeof(%q) = 'text' AND %q LIKE '%s_%%:%%';\n"+
				"SELECT changes();\n",
			table, column, column, now.UTC().Format(time.DateOnly), now.Add(by).UTC().Format(time.DateOnly), column,
			column, now.UTC().Format(time.DateOnly))
	}
	changes, err := s.sql(ledger, script.String())
	if err != nil {
		return 0, err
	}
	for text := range strings.Lines(changes) {
		var n int
		_, _ = fmt.Sscan(text, &n)
		moved += n
	}
	return moved, filepath.Walk(s.home, func(path string, info os.FileInfo, err error) error {
		if err != nil {
			return err
		}
		return os.Chtimes(path, info.ModTime().Add(by), info.ModTime().Add(by))
	})
}

func (s *stage) sql(ledger, script string) (string, error) {
	cmd := exec.CommandContext(s.ctx, "sqlite3", "-bail", ledger)
	cmd.Stdin = strings.NewReader(script)
	out, err := cmd.Output()
	if exit, ok := err.(*exec.ExitError); ok {
		err = fmt.Errorf("sqlite3: %w: %s", err, exit.Stderr)
	}
	return string(out), err
}
