package scope

import (
	"context"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/bmatcuk/doublestar/v4"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qq/pkg/agents"
	"qq/pkg/supervisor"
	"qq/pkg/task"
)

// file is a file as the kernel knows it, whatever its names are.
type file struct{ dev, ino uint64 }

// open are the files that jobs have open, and which of these jobs write.
type opened struct {
	mu    sync.Mutex
	files map[file]map[string]bool
	wrong []string
	met   int
}

// use opens one of the files that a task may touch, for a while. It makes the file if there is none.
func (o *opened) use(ctx context.Context, job task.Job, r *rand.Rand) {
	writes := job.Agent == "coder"
	for _, target := range job.Targets {
		f := some(filepath.Join(job.WorkingDir, target), r, writes)
		if f == nil {
			continue
		}
		defer f.Close()
		info, err := f.Stat()
		if err != nil {
			continue
		}
		stat := info.Sys().(*syscall.Stat_t)
		id := file{stat.Dev, stat.Ino}
		o.mu.Lock()
		if o.files[id] == nil {
			o.files[id] = map[string]bool{}
		}
		for other, wrote := range o.files[id] {
			if o.met++; other != job.Text && (writes || wrote) {
				o.wrong = append(o.wrong, fmt.Sprintf("%s: %s and %s %v", f.Name(), other, job.Text, job.Targets))
			}
		}
		o.files[id][job.Text] = writes || o.files[id][job.Text]
		o.mu.Unlock()
		defer func() {
			o.mu.Lock()
			defer o.mu.Unlock()
			delete(o.files[id], job.Text)
		}()
	}
	select {
	case <-time.After(time.Duration(r.IntN(3000)) * time.Microsecond):
	case <-ctx.Done():
	}
}

// some opens a file that the target names, or that is in it, or that matches it.
func some(target string, r *rand.Rand, writes bool) *os.File {
	var names []string
	if found, _ := doublestar.FilepathGlob(target, doublestar.WithNoFollow()); len(found) > 0 {
		names = found
	}
	_ = filepath.WalkDir(target+"/", func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			names = append(names, path)
		}
		return nil
	})
	flags := os.O_RDONLY
	if writes {
		flags = os.O_RDWR
		names = append(names, filepath.Join(target, "new"))
		if _, err := os.Lstat(target); err != nil {
			names = append(names, target)
		}
		flags |= os.O_CREATE
	}
	for range 5 {
		if len(names) == 0 {
			return nil
		}
		name := names[r.IntN(len(names))]
		if info, err := os.Stat(name); err == nil && info.IsDir() {
			continue
		}
		if f, err := os.OpenFile(name, flags, 0o600); err == nil {
			return f
		}
	}
	return nil
}

// plant makes a random tree of files, folders and links in the working directory.
func plant(t *testing.T, r *rand.Rand) {
	t.Helper()
	for _, dir := range []string{"a", "a/b", "c", "c/d", "e"} {
		require.NoError(t, os.MkdirAll(dir, 0o700))
	}
	folders := []string{".", "a", "a/b", "c", "c/d", "e"}
	for i := range 12 {
		name := filepath.Join(folders[r.IntN(len(folders))], fmt.Sprint("f", i))
		require.NoError(t, os.WriteFile(name, nil, 0o600))
		if r.IntN(4) == 0 {
			at := filepath.Join(folders[r.IntN(len(folders))], fmt.Sprint("l", i))
			to, err := filepath.Rel(filepath.Dir(at), name)
			require.NoError(t, err)
			require.NoError(t, os.Symlink(to, at))
		}
	}
	for i := range 3 {
		from, to := folders[r.IntN(len(folders))], folders[1+r.IntN(len(folders)-1)]
		rel, err := filepath.Rel(from, to)
		require.NoError(t, err)
		require.NoError(t, os.Symlink(rel, filepath.Join(from, fmt.Sprint("dir", i))))
	}
}

// spell names a path in one of the ways in which people and models do.
func spell(r *rand.Rand) string {
	folder := []string{"", "a/", "a/b/", "c/", "c/d/", "e/", "dir0/", "a/dir1/", "./", "a//b/", "c/../a/"}[r.IntN(11)]
	switch r.IntN(8) {
	case 0:
		return filepath.Clean(folder + ".")
	case 1:
		return folder + "*"
	case 2:
		return folder + "**/f" + fmt.Sprint(r.IntN(12))
	case 3:
		return folder + fmt.Sprint("l", r.IntN(12))
	case 4:
		return folder + fmt.Sprintf("f{%d,%d}", r.IntN(12), r.IntN(12))
	}
	return folder + fmt.Sprint("f", r.IntN(12))
}

// launcher runs a function for each job.
type launcher func(ctx context.Context, job task.Job, p supervisor.Parent) task.Result

func (l launcher) Launch(ctx context.Context, job task.Job, p supervisor.Parent) task.Result {
	return l(ctx, job, p)
}

// TestKernel: of jobs that agents delegate and start in the background, no two have one file open at once of which one
// writes, as the kernel knows the file. The tree has links, and paths are spelled in many ways.
func TestKernel(t *testing.T) {
	seeds, met := 60, 0
	if testing.Short() {
		seeds = 10
	}
	for seed := range seeds {
		t.Chdir(t.TempDir())
		r := rand.New(rand.NewPCG(uint64(seed), 15))
		plant(t, r)
		all := &opened{files: map[file]map[string]bool{}}
		work := launcher(func(ctx context.Context, job task.Job, _ supervisor.Parent) task.Result {
			var n uint64
			_, _ = fmt.Sscan(job.Text, &n)
			all.use(ctx, job, rand.New(rand.NewPCG(uint64(seed), n)))
			return job.Ended(task.Completed, "")
		})
		s := supervisor.New(supervisor.Config{
			Limits:   supervisor.Limits{Limits: task.Limits{MaxParallel: 8, MaxDepth: 3, MaxChildren: 1000}},
			Launcher: work, Agents: agents.Load(nil), Paths: New("."),
		})
		var tasks []task.Task
		for i := range 40 {
			one := task.Task{Text: fmt.Sprint(i), Agent: []string{"coder", "explorer"}[r.IntN(2)]}
			for range 1 + r.IntN(2) {
				one.Targets = append(one.Targets, spell(r))
			}
			if r.IntN(6) == 0 {
				one.WorkingDir = []string{"a", "c/d", "e"}[r.IntN(3)]
			}
			tasks = append(tasks, one)
		}
		_, err := s.Run(t.Context(), task.Task{Text: "lead", Agent: "worker"}, "", launcher(
			func(ctx context.Context, job task.Job, p supervisor.Parent) task.Result {
				for _, one := range tasks[:20] {
					_, err := p.Spawn(ctx, one)
					assert.NoError(t, err)
				}
				for _, res := range p.Delegate(ctx, tasks[20:]) {
					assert.True(t, res.Success, res.Err())
				}
				_, err := p.Wait(ctx, nil, 0)
				assert.NoError(t, err)
				return job.Ended(task.Completed, "")
			}))
		require.NoError(t, err)
		assert.Empty(t, all.wrong, "seed %d", seed)
		met += all.met
	}
	assert.Positive(t, met, "readers meet")
}
