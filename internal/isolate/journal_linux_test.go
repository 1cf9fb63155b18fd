package isolate

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qq/internal/isolate/files"
)

// TestKilledAtEachStep: whatever a process had done of a join when it was killed, Sweep makes the tree as before or, if
// the journal was committed, as after it.
func TestKilledAtEachStep(t *testing.T) {
	const script = "sed -i s/one/ONE/ src/a; rm -r src/deep; echo f > src/deep; mv bin b2; ln -sfn x link; " +
		"chmod +x untracked; mkdir -p n/m; echo 1 > n/m/o; rmdir empty2"
	for cut, more := 0, true; more; cut++ {
		for _, end := range []string{begun, committed} {
			if end == begun && cut%4 != 0 {
				continue
			}
			y := newYard(t, repository)
			c, err := y.Make(t.Context(), "k", Overlay)
			if err != nil {
				t.Skip(err)
			}
			before := sum(t, y.path("tree"), false)
			y.run(c, script)
			steps := y.plan(y.patch(c))
			j := journal{Dir: []byte(y.Dir), Steps: steps}
			more = cut < len(j.actions())
			changed, err := os.OpenRoot(c.changes)
			require.NoError(t, err)
			name := filepath.Join(y.folder(), "k")
			j.name(y.live, name)
			text, err := json.Marshal(j)
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(name+end, text, 0o600))
			want := before
			if end == begun {
				j.Steps = steps[:min(cut, len(steps))]
			}
			for _, s := range j.Steps {
				require.NoError(t, s.write(y.live, changed))
			}
			if end == committed {
				for _, a := range j.actions()[:cut] {
					_, err := a.do(y.live, y.path("patches"))
					require.NoError(t, err)
				}
				y.shell(".", "cp -a "+template()+" twin; cd twin; "+script)
				want = sum(t, y.path("twin"), false)
			}
			require.NoError(t, changed.Close())
			require.NoError(t, y.lock.Release()) // as if the process were gone
			y.lock = nil
			kept, err := Sweep(y.path("state"), y.path("patches"))
			require.NoError(t, err)
			assert.Empty(t, kept)
			assert.Equal(t, want, sum(t, y.path("tree"), false), "%s after %d", end, cut)
			y.clean()
		}
	}
}

// TestJoinWritesAside: others make copies while a join waits for the disk. A worktree has none of its files.
func TestJoinWritesAside(t *testing.T) {
	y := newYard(t, repository)
	c, err := y.Make(t.Context(), "k", Overlay)
	if err != nil {
		t.Skip(err)
	}
	y.run(c, "echo 1 > src/new")
	p := y.patch(c)
	y.mu.RLock() // as who makes a copy
	joined := make(chan error, 1)
	go func() {
		_, err := y.Join(t.Context(), p)
		joined <- err
	}()
	assert.Eventually(t, func() bool {
		_, err := os.Stat(filepath.Join(y.folder(), "k"+committed))
		return err == nil
	}, 10*time.Second, time.Millisecond)
	assert.NoFileExists(t, y.path("tree/src/new"))
	temporary := files.TempPrefix + "k-0"
	assert.FileExists(t, y.path("tree/src/"+temporary))
	w := &Copy{ID: "w", tree: y.Tree, folder: filepath.Join(y.folder(), "w")}
	require.NoError(t, w.begin())
	require.NoError(t, w.checkout(t.Context()))
	assert.NoFileExists(t, filepath.Join(w.Dir, "src", temporary))
	require.NoError(t, w.clear())
	y.mu.RUnlock()
	require.NoError(t, <-joined)
	assert.FileExists(t, y.path("tree/src/new"))
}

// late is a [Witness] that wants to be told when all is ready, and then refuses the join.
type late struct{ name string }

func (l late) Effects() error {
	if _, err := os.Stat(l.name); err != nil {
		return err
	}
	return errors.New("not now")
}

// TestWitness: a patch counts as joined as late as can be, so that a task that is killed before can run again.
func TestWitness(t *testing.T) {
	y := newYard(t, repository)
	c, err := y.Make(t.Context(), "k", Overlay)
	if err != nil {
		t.Skip(err)
	}
	before := sum(t, y.path("tree"), false)
	y.run(c, "echo 1 > src/new")
	p := y.patch(c)
	p.Witness = late{y.path("tree/src/" + files.TempPrefix + "k-0")}
	_, err = y.Join(t.Context(), p)
	require.ErrorContains(t, err, "not now")
	assert.Equal(t, before, sum(t, y.path("tree"), false))
	assert.NoFileExists(t, filepath.Join(y.folder(), "k"+begun))
}

// TestFailedJoin: whatever was done of a join when it fails, the tree is as before, and nothing finishes it later.
func TestFailedJoin(t *testing.T) {
	const script = "sed -i s/one/ONE/ src/a; rm -r src/deep; echo f > src/deep; mv bin b2; ln -sfn x link; " +
		"rm .gitignore; ln -s x .gitignore; chmod 700 src; chmod +x untracked; mkdir -p n/m; echo 1 > n/m/o; " +
		"rmdir empty2"
	for cut, more := 0, true; more; cut++ {
		y := newYard(t, repository)
		c, err := y.Make(t.Context(), "k", Overlay)
		if err != nil {
			t.Skip(err)
		}
		before := sum(t, y.path("tree"), false)
		y.run(c, script)
		changed, err := os.OpenRoot(c.changes)
		require.NoError(t, err)
		defer changed.Close()
		j := journal{Dir: []byte(y.Dir), Steps: y.plan(y.patch(c))}
		more = cut < len(j.actions())
		if !more { // as run does it, up to a folder that cannot be made
			j.Steps = append(j.Steps, step{Path: []byte("nowhere/x"), New: files.State{Mode: fs.ModeDir | 0o755}})
			require.NoError(t, j.commit(y.live, filepath.Join(y.folder(), "k"), changed, nil))
			_, err = j.run(y.live, filepath.Join(y.folder(), "k"), y.path("patches"))
			require.ErrorIs(t, err, fs.ErrNotExist)
			assert.NotContains(t, err.Error(), "taken back")
		} else {
			j.name(y.live, filepath.Join(y.folder(), "k"))
			for _, s := range j.Steps {
				require.NoError(t, s.write(y.live, changed))
			}
			for _, a := range j.actions()[:cut] {
				_, err := a.do(y.live, y.path("patches"))
				require.NoError(t, err)
			}
			if cut%2 == 0 { // the process is killed while it takes them back
				for _, a := range slices.Backward(j.actions()[cut/2:]) {
					_ = a.back(y.live)
				}
			}
			text, err := json.Marshal(j)
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(filepath.Join(y.folder(), "k")+failed, text, 0o600))
		}
		require.NoError(t, y.Close())
		assert.Equal(t, before, sum(t, y.path("tree"), false), "after %d", cut)
		y.clean()
	}
}

// TestJournalFollowsNoLink: who replaces a folder by a link while a join renames files leads it nowhere.
func TestJournalFollowsNoLink(t *testing.T) {
	y := newYard(t, repository)
	c, err := y.Make(t.Context(), "k", Overlay)
	if err != nil {
		t.Skip(err)
	}
	y.run(c, "mkdir src/made; echo new > src/made/pre-commit; rm src/deep/b; chmod 700 src/deep")
	y.shell("tree", "mkdir -p .git/hooks; echo old > .git/hooks/b; chmod 755 .git/hooks")
	before := y.shell("tree", "ls -l .git/hooks; stat -c %a .git/hooks")
	changed, err := os.OpenRoot(c.changes)
	require.NoError(t, err)
	defer changed.Close()
	j := journal{Dir: []byte(y.Dir), Steps: y.plan(y.patch(c))}
	j.name(y.live, filepath.Join(y.folder(), "k"))
	for _, s := range j.Steps {
		require.NoError(t, s.write(y.live, changed))
	}
	for _, a := range j.actions() {
		if string(a.Path) == "src/made/pre-commit" {
			y.shell("tree", "rmdir src/made; ln -s ../.git/hooks src/made")
		}
		_, err := a.do(y.live, y.path("patches"))
		require.NoError(t, err)
	}
	assert.Equal(t, before, y.shell("tree", "ls -l .git/hooks; stat -c %a .git/hooks"))
	require.NoError(t, j.clean(y.live))
	assert.Equal(t, "new\n", y.shell("patches", "cat *-pre-commit"))
}

// plan returns the steps to join a patch.
func (y *yard) plan(p *Patch) []step {
	changed, err := os.OpenRoot(p.copy.changes)
	require.NoError(y, err)
	defer changed.Close()
	pl := plan{copy: p.copy, live: y.live, changed: changed}
	require.NoError(y, pl.decide(p.Changes))
	require.Empty(y, pl.conflicts)
	return pl.steps
}

// TestChangedMeanwhile: what somebody changes between a kill and Sweep stays, and the new content is kept.
func TestChangedMeanwhile(t *testing.T) {
	y := newYard(t, repository)
	c, err := y.Make(t.Context(), "k", Overlay)
	if err != nil {
		t.Skip(err)
	}
	y.run(c, "echo task >> src/a; rm untracked; echo task > bin")
	steps := y.plan(y.patch(c))
	j := journal{Dir: []byte(y.Dir), Steps: steps}
	changed, err := os.OpenRoot(c.changes)
	require.NoError(t, err)
	defer changed.Close()
	name := filepath.Join(y.folder(), "k")
	j.name(y.live, name)
	text, err := json.Marshal(j)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(name+committed, text, 0o600))
	for _, s := range j.Steps {
		require.NoError(t, s.write(y.live, changed))
	}
	y.shell("tree", "echo person >> src/a; echo person >> untracked")
	require.NoError(t, y.lock.Release())
	y.lock = nil
	kept, err := Sweep(y.path("state"), y.path("patches"))
	require.NoError(t, err)
	require.Len(t, kept, 1)
	text, err = os.ReadFile(kept[0])
	require.NoError(t, err)
	assert.Contains(t, string(text), "seven\ntask\n")
	assert.Equal(t, "task\n", y.shell("tree", "cat bin; grep -q person src/a; grep -q person untracked"))
}

// BenchmarkOverlay tells what an overlay costs over a task in place: a copy, a process in it, the patch, the join of
// one file, and the removal.
func BenchmarkOverlay(b *testing.B) {
	y := newYard(b, `mkdir d; for i in $(seq 2000); do echo $i > d/$i; done`)
	run := func(name string, script func(i int) string, isolated bool) {
		b.Run(name, func(b *testing.B) {
			for i := 0; b.Loop(); i++ {
				cmd := y.sh(script(i))
				cmd.Dir = y.Dir
				if !isolated {
					_, err := output(cmd)
					require.NoError(b, err)
					continue
				}
				c, err := y.Make(b.Context(), "b"+time.Now().Format("150405.000000000"), Overlay)
				require.NoError(b, err)
				require.NoError(b, c.Enter(&cmd))
				_, err = output(cmd)
				require.NoError(b, err)
				p, err := c.Patch(b.Context())
				require.NoError(b, err)
				out, err := y.Join(b.Context(), p)
				require.NoError(b, err)
				require.Empty(b, out[0].Conflicts)
				require.NoError(b, c.Remove())
			}
		})
	}
	reads := func(int) string { return "cat d/7 >/dev/null" }
	writes := func(int) string { return "echo " + time.Now().String() + " > d/7" }
	run("reads in place", reads, false)
	run("reads apart", reads, true)
	run("writes in place", writes, false)
	run("writes apart", writes, true)
}

// TestSweepGivesUp: a join cannot be finished because somebody removed its folder. That is said, and not for ever.
func TestSweepGivesUp(t *testing.T) {
	y := newYard(t, repository)
	c, err := y.Make(t.Context(), "k", Overlay)
	if err != nil {
		t.Skip(err)
	}
	y.run(c, "echo 1 > src/deep/new")
	j := journal{Dir: []byte(y.Dir), Steps: y.plan(y.patch(c))}
	changed, err := os.OpenRoot(c.changes)
	require.NoError(t, err)
	require.NoError(t, j.commit(y.live, filepath.Join(y.folder(), "k"), changed, nil))
	require.NoError(t, changed.Close())
	require.NoError(t, y.lock.Release()) // as if the process were gone
	y.lock = nil
	y.shell("tree", "rm -r src/deep")
	before := sum(t, y.path("tree"), false)
	for range 3 {
		_, err = Sweep(y.path("state"), y.path("patches"))
	}
	require.NoError(t, err)
	assert.Equal(t, before, sum(t, y.path("tree"), false))
	y.clean()
}
