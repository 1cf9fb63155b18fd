package isolate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qq/pkg/proc"
)

// seedsEnv is how many seeds TestWriters tries; with it, there are 50 writers.
const seedsEnv = "ISOLATE_SEEDS"

// job says what the writers of one seed do. It is an argument of their processes.
type job struct {
	Seed    uint64
	Writers int
	Mode    Mode
	Git     bool
}

func (j job) String() string {
	text, _ := json.Marshal(j)
	return string(text)
}

const texts, lines, victims, folders2 = 6, 40, 12, 6

// start makes the tree of the writers.
func (j job) start(dir string) error {
	var all error
	put := func(name, text string) {
		all = errors.Join(all, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755),
			os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	for i := range texts {
		var b strings.Builder
		for l := range lines {
			fmt.Fprintf(&b, "text %d line %d\n", i, l)
		}
		put("text"+strconv.Itoa(i), b.String())
	}
	for i := range victims {
		put("victims/"+strconv.Itoa(i), "victim\n")
		put("bins/"+strconv.Itoa(i), "b\x00"+strconv.Itoa(i))
	}
	for i := range folders2 {
		put(fmt.Sprintf("dirs/%d/in/a", i), "a\n")
		put(fmt.Sprintf("dirs/%d/b", i), "b\n")
	}
	return all
}

// edit is one thing that a writer does. Slot names what it touches: writers of one slot may be in conflict.
type edit struct {
	slot string
	do   func(dir string) error
}

// edits are what the writer i does. To do them again changes nothing.
func (j job) edits(i int) (all []edit) {
	r := rand.New(rand.NewPCG(j.Seed, uint64(i)))
	for range 1 + r.IntN(4) {
		n, whole := r.IntN(1000), r.IntN(2) == 0
		switch r.IntN(8) {
		case 0, 1, 2:
			file, line := "text"+strconv.Itoa(n%texts), n/texts%(lines/3)*3
			all = append(all, edit{file + ":" + strconv.Itoa(line), func(dir string) error {
				return setLine(filepath.Join(dir, file), line, fmt.Sprintf("by %d", i), whole)
			}})
		case 3:
			name := fmt.Sprintf("made/%d/new\xff%d", n%3, i)
			text := strings.Repeat(fmt.Sprintf("%d\x00\n", i), 1+n)
			all = append(all, edit{name, func(dir string) error {
				return errors.Join(os.MkdirAll(filepath.Join(dir, filepath.Dir(name)), 0o755),
					os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755))
			}})
		case 4:
			name := "victims/" + strconv.Itoa(n%victims)
			all = append(all, edit{name, func(dir string) error { return os.RemoveAll(filepath.Join(dir, name)) }})
		case 5:
			name := fmt.Sprintf("dirs/%d", n%folders2)
			all = append(all, edit{name, func(dir string) error {
				from := filepath.Join(dir, name)
				if _, err := os.Lstat(from); errors.Is(err, fs.ErrNotExist) {
					return nil
				}
				err := os.CopyFS(from+"-moved", os.DirFS(from)) // as mv does
				if errors.Is(err, fs.ErrNotExist) {             // the move of another writer was joined meanwhile
					err = nil
				}
				return errors.Join(err, os.RemoveAll(from))
			}})
		case 6:
			name := "bins/" + strconv.Itoa(n%victims)
			all = append(all, edit{name, func(dir string) error {
				return os.WriteFile(filepath.Join(dir, name), fmt.Appendf(nil, "bin\x00%d", i), 0o644)
			}})
		case 7:
			name := "text" + strconv.Itoa(n%texts) // the same by all
			all = append(all, edit{"mode", func(dir string) error { return os.Chmod(filepath.Join(dir, name), 0o755) }})
		}
	}
	return all
}

// setLine replaces a line of a file: in the file, or by a new file.
func setLine(name string, line int, text string, whole bool) error {
	data, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	all := strings.SplitAfter(string(data), "\n")
	all[line] = text + "\n"
	if !whole {
		return os.WriteFile(name, []byte(strings.Join(all, "")), 0o644)
	}
	info, err := os.Stat(name)
	if err != nil {
		return err
	}
	return errors.Join(os.WriteFile(name+"~", []byte(strings.Join(all, "")), info.Mode()),
		os.Chmod(name+"~", info.Mode()), os.Rename(name+"~", name))
}

// run makes the edits of the writer i.
func (j job) run(dir string, i int) error {
	for _, e := range j.edits(i) {
		if err := e.do(dir); err != nil {
			return err
		}
	}
	return nil
}

// writer is the process of one writer, in a copy.
func writer(text string) error {
	var w struct {
		job
		I int
	}
	if err := json.Unmarshal([]byte(text), &w); err != nil {
		return err
	}
	dir, err := os.Getwd()
	if err != nil {
		return err
	}
	return w.run(dir, w.I)
}

// session is a process that runs the writers which have no outcome yet, and joins what they changed in their order. It
// writes the outcomes to a file.
func session(top, text string) error {
	var j job
	if err := json.Unmarshal([]byte(text), &j); err != nil {
		return err
	}
	y := &yard{top: top, host: host}
	record, err := os.OpenFile(y.path("record"), os.O_RDWR|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	if _, err := Sweep(y.path("state"), y.path("patches")); err != nil {
		return err
	}
	tree, err := Open(y.config())
	if err != nil {
		return err
	}
	done, err := recorded(y.path("record"))
	if err != nil {
		return err
	}
	patches, errs := make([]*Patch, j.Writers), make([]error, j.Writers)
	ready := make([]chan bool, j.Writers)
	slots := make(chan bool, 8)
	var wg sync.WaitGroup
	for i := len(done); i < j.Writers; i++ {
		ready[i] = make(chan bool)
		slots <- true
		wg.Go(func() {
			defer func() { <-slots }()
			defer close(ready[i])
			patches[i], errs[i] = j.task(tree, i)
		})
		for first := len(done); first <= i; first++ { // join what is ready, in order
			select {
			case <-ready[first]:
			default:
				first = i
				continue
			}
			if err := j.finish(tree, record, first, patches[first], errs[first]); err != nil {
				return err
			}
			done = append(done, "")
		}
	}
	wg.Wait()
	for i := len(done); i < j.Writers; i++ {
		if err := j.finish(tree, record, i, patches[i], errs[i]); err != nil {
			return err
		}
	}
	host.Close()
	return tree.Close()
}

// task runs the writer i in a copy. Some are killed; those have no patch.
func (j job) task(tree *Tree, i int) (*Patch, error) {
	c, err := tree.Make(context.Background(), strconv.Itoa(i), j.Mode)
	if err != nil {
		return nil, err
	}
	arg, _ := json.Marshal(struct {
		job
		I int
	}{j, i})
	cmd := proc.Command{Path: self(), Args: []string{"writer", string(arg)}, Dir: c.Dir,
		Env: []string{roleEnv + "=write"}}
	if err := c.Enter(&cmd); err != nil {
		return nil, err
	}
	if rand.New(rand.NewPCG(j.Seed+1<<32, uint64(i))).IntN(20) == 0 { // always the same, in each session
		p, err := host.Start(cmd)
		if err != nil {
			return nil, err
		}
		<-time.After(time.Duration(rand.IntN(10)) * time.Millisecond)
		p.Kill()
		p.Wait()
		return nil, c.Remove()
	}
	if _, err := output(cmd); err != nil {
		return nil, err
	}
	return c.Patch(context.Background())
}

// finish joins a patch and writes the outcome to the record.
func (j job) finish(tree *Tree, record *os.File, i int, p *Patch, err error) error {
	outcome := "killed"
	if err != nil {
		return err
	}
	if p != nil {
		out, err := tree.Join(context.Background(), p)
		if err != nil {
			return err
		}
		outcome = "joined"
		if len(out[0].Conflicts) > 0 {
			outcome = fmt.Sprintf("conflict %s %q", out[0].File, out[0].Conflicts)
		}
		if len(out[0].Kept) > 0 {
			return fmt.Errorf("writer %d: nobody else writes, but %q was kept", i, out[0].Kept)
		}
		if err := p.copy.Remove(); err != nil {
			return err
		}
	}
	_, err = record.WriteString(outcome + "\n")
	return err
}

// recorded returns the outcomes that are complete.
func recorded(name string) ([]string, error) {
	text, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	all := strings.SplitAfter(string(text), "\n")
	return all[:len(all)-1], err
}

// serial returns what the tree is after the joined writers ran in it one after another, the writer more too unless it
// is negative.
func (j job) serial(t *testing.T, done []string, more int) string {
	dir := t.TempDir()
	require.NoError(t, j.start(dir))
	for i := range j.Writers {
		if i < len(done) && strings.HasPrefix(done[i], "joined") || i == more {
			require.NoError(t, j.run(dir, i))
		}
	}
	require.NoError(t, os.Chmod(dir, 0o755))
	return sum(t, dir, false)
}

// TestWriters: many writers change one tree at once, and the process that joins them is killed at random moments. After
// each kill the tree is as after a serial run of the first writers; at the end, of all that are not in conflict. A
// conflict has a patch, and another writer that touched the same. Nothing is left.
func TestWriters(t *testing.T) {
	seeds, writers := 3, 12
	if n, err := strconv.Atoi(os.Getenv(seedsEnv)); err == nil {
		seeds, writers = n, 50
	}
	conflicts, kills := 0, 0
	for seed := range seeds {
		j := job{Seed: uint64(seed), Writers: writers, Mode: Overlay, Git: seed%2 == 1}
		if seed%4 == 3 {
			j.Mode = Worktree
		}
		if !t.Run(fmt.Sprintf("seed%d-%s", seed, j.Mode), func(t *testing.T) {
			c, k := j.test(t)
			conflicts, kills = conflicts+c, kills+k
		}) {
			break
		}
	}
	t.Logf("%d seeds, %d kills, %d conflicts", seeds, kills, conflicts)
	assert.Positive(t, conflicts+kills)
}

func (j job) test(t *testing.T) (conflicts, kills int) {
	y := &yard{TB: t, host: host, top: t.TempDir()}
	require.NoError(t, os.Mkdir(y.path("tree"), 0o755))
	require.NoError(t, j.start(y.path("tree")))
	if j.Git {
		y.shell("tree", "git init -q -b main .; git add -A; git commit -qm first")
	}
	probe, err := Open(y.config())
	require.NoError(t, err)
	if _, err := probe.Make(context.Background(), "probe", j.Mode); err != nil {
		require.NoError(t, probe.Close())
		t.Skip(err)
	}
	require.NoError(t, probe.Close())
	r := rand.New(rand.NewPCG(j.Seed, 1<<40))
	for round := 0; ; round++ {
		out, err := os.CreateTemp(y.top, "out")
		require.NoError(t, err)
		p, err := host.Start(proc.Command{Path: self(), Args: []string{"session", y.top, j.String()},
			Env: []string{roleEnv + "=session", "PATH=" + os.Getenv("PATH")}, Stdout: out, Stderr: out,
			Marker: "ISOLATE_TEST_SESSION=" + strconv.Itoa(round)})
		require.NoError(t, err)
		out.Close()
		if round < 4 {
			select {
			case <-time.After(time.Duration(r.IntN(15*j.Writers)) * time.Millisecond):
			case <-p.Done():
			}
			p.Kill()
		}
		exit := p.Wait()
		said, err := os.ReadFile(out.Name())
		require.NoError(t, err)
		require.Empty(t, string(said))
		kept, err := Sweep(y.path("state"), y.path("patches"))
		require.NoError(t, err)
		require.Empty(t, kept)
		y.clean()
		done, err := recorded(y.path("record"))
		require.NoError(t, err)
		is := sum(t, y.path("tree"), false)
		if is != j.serial(t, done, -1) { // the last join has no record
			require.Equal(t, j.serial(t, done, len(done)), is, "after %d of %d", len(done), j.Writers)
		}
		if exit.Signal != 0 {
			kills++
			continue
		}
		require.Len(t, done, j.Writers)
		return j.judge(t, done), kills
	}
}

// judge asserts that each conflict has a patch and a reason, and returns how many there are.
func (j job) judge(t *testing.T, done []string) (conflicts int) {
	touched := map[string]bool{}
	for i, outcome := range done {
		edits := j.edits(i)
		if file, ok := strings.CutPrefix(outcome, "conflict "); ok {
			conflicts++
			file, _, _ = strings.Cut(file, " ")
			patch, err := os.ReadFile(file)
			require.NoError(t, err)
			assert.Contains(t, string(patch), "diff --git")
			shared := slices.ContainsFunc(edits, func(e edit) bool { return touched[e.slot] })
			assert.True(t, shared, "writer %d is in conflict with nobody: %s", i, outcome)
		}
		if strings.HasPrefix(outcome, "joined") {
			for _, e := range edits {
				touched[e.slot] = true
			}
		}
	}
	return conflicts
}
