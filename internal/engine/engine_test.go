package engine

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qq/internal/config"
	"qq/internal/qqtest"
	"qq/pkg/agents"
	"qq/pkg/event"
	"qq/pkg/llm"
	"qq/pkg/task"
)

// inFolder makes a new folder that of this process.
func inFolder(t *testing.T) string {
	t.Helper()
	t.Chdir(t.TempDir())
	dir, err := os.Getwd()
	require.NoError(t, err)
	return dir
}

// newEngine makes an engine for the model extract, that starts no child.
func newEngine(t *testing.T, change func(*Config)) *Engine {
	t.Helper()
	home := t.TempDir()
	cfg := Config{
		Settings: config.Config{Home: home, LogDir: filepath.Join(home, "logs"), Model: Extract, OllamaHost: "127.0.0.1:1", MaxDepth: 2},
		Dir:      inFolder(t), Version: "test", Agents: agents.Load(nil), Note: func(string, ...any) {},
	}
	if change != nil {
		change(&cfg)
	}
	e, err := New(cfg)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, e.Close()) })
	return e
}

// messages are a transcript.
type messages []llm.Message

func (m *messages) Append(one llm.Message) { *m = append(*m, one) }

// TestRun: the root's own agent answers, is recorded and reports as itself.
func TestRun(t *testing.T) {
	var seen []event.Event
	e := newEngine(t, func(c *Config) {
		c.Sinks = []event.Sink{event.SinkFunc(func(e event.Event) { seen = append(seen, e) })}
	})
	require.NoError(t, os.WriteFile(filepath.Join(e.cfg.Dir, "a.md"), []byte("# Owls\n\nOwls hunt at night. Owls see well.\n"), 0o600))
	definition, m, err := e.Staff(t.Context(), task.Task{Agent: task.DefaultAgent})
	require.NoError(t, err)
	assert.Equal(t, Extract, m.String())
	recorded := &messages{}
	one := Run{Agent: definition, Model: m, Transcript: recorded}
	r, err := e.Run(t.Context(), one, task.Task{Text: "Summarize a.md"})
	require.NoError(t, err)
	assert.Equal(t, task.Completed, r.Status, r.Err())
	assert.Equal(t, []string{Extract, definition.Name, e.ID()}, []string{r.Model, r.Agent, r.ExecutionID})
	assert.Contains(t, r.Output, "Owls")
	assert.Equal(t, r.Output, (*recorded)[len(*recorded)-1].Content)
	tokens := ""
	for _, ev := range seen {
		assert.Equal(t, definition.Name, ev.Agent)
		assert.Equal(t, e.ID(), ev.ExecutionID)
		if ev.Type == event.Token {
			tokens += ev.Text
		}
	}
	assert.Contains(t, tokens, r.Output)

	_, _, err = e.Staff(t.Context(), task.Task{Agent: "nobody"})
	assert.Error(t, err)
}

// TestPrepare: a child is told what it may do, and never more than its root.
func TestPrepare(t *testing.T) {
	for _, c := range []struct {
		root, job bool
		depth     int
		readOnly  bool
		delegate  bool
	}{
		{depth: 0, delegate: true},
		{depth: 1},
		{root: true, delegate: true, readOnly: true},
		{job: true, delegate: true, readOnly: true},
	} {
		e := newEngine(t, func(cfg *Config) { cfg.ReadOnly = c.root })
		job := task.Job{Task: task.Task{Agent: task.DefaultAgent, ReadOnly: c.job}, Depth: c.depth}
		start, err := e.Prepare(t.Context(), job)
		require.NoError(t, err)
		assert.Equal(t, c.readOnly, start.ReadOnly)
		assert.Equal(t, c.delegate, start.CanDelegate)
		var setup childSetup
		require.NoError(t, json.Unmarshal(start.Setup, &setup))
		assert.Equal(t, Extract, setup.Model.Kind)
		assert.Empty(t, setup.Agent.TempDir, "an agent that changes nothing needs none")
		assert.False(t, start.Events)
	}
}

// TestResolve: the server is asked once for each name, by however many.
func TestResolve(t *testing.T) {
	server := qqtest.Start(t, qqtest.Models(qqtest.Model{Name: "stand-in"}, qqtest.Model{Name: "plain", Capabilities: []string{"completion"}}))
	var notes []string
	m := &models{host: server.URL, run: "ollama:stand-in", note: func(f string, args ...any) { notes = append(notes, fmt.Sprintf(f, args...)) }}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			found, err := m.resolve(t.Context(), "")
			assert.NoError(t, err)
			assert.Equal(t, "ollama:stand-in", found.String())
		})
	}
	wg.Wait()
	assert.Equal(t, 1, server.Count("/api/show"))
	assert.Empty(t, notes)

	found, err := m.resolve(t.Context(), "plain")
	require.NoError(t, err)
	assert.False(t, found.tools())
	assert.Equal(t, []string{"model plain cannot call tools: agents work without them"}, notes)

	_, err = m.resolve(t.Context(), "ollama:none")
	var wrong *llm.Error
	require.ErrorAs(t, err, &wrong)
	assert.Equal(t, llm.UnknownModel, wrong.Kind)
	assert.Contains(t, wrong.Hint, "; the server has: ")
	assert.Contains(t, wrong.Hint, "stand-in")
}

// TestResolveWithoutServer: only auto does without.
func TestResolveWithoutServer(t *testing.T) {
	notes := 0
	m := &models{host: "127.0.0.1:1", run: Auto, note: func(string, ...any) { notes++ }}
	found, err := m.resolve(t.Context(), "")
	require.NoError(t, err)
	assert.Equal(t, Model{Kind: Extract}, found)
	assert.Equal(t, 1, notes)
	_, err = m.resolve(t.Context(), "stand-in")
	assert.Error(t, err)

	m = &models{host: "ftp://host", run: "stand-in"}
	_, err = m.resolve(t.Context(), "")
	var wrong *config.Error
	assert.ErrorAs(t, err, &wrong, "a mistake of a person")
}

// TestScratch: the folder is private, made once and late, and removed; what a
// process that was killed left behind goes with the next one, and nobody else's.
func TestScratch(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	s := &scratch{dir: dir}
	assert.NoDirExists(t, dir)
	left := filepath.Join(dir, "1-left")
	require.NoError(t, os.MkdirAll(left, 0o700))
	other := &scratch{dir: dir}
	theirs, err := other.folder()
	require.NoError(t, err)
	assert.NoDirExists(t, left)

	own, err := s.folder()
	require.NoError(t, err)
	again, err := s.folder()
	require.NoError(t, err)
	assert.Equal(t, own, again)
	assert.DirExists(t, theirs)
	info, err := os.Stat(own)
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o700), info.Mode().Perm())

	s.remove()
	s.remove()
	other.remove()
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	assert.Empty(t, entries)
}

func TestScratchHasNoPlace(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	_, err := (&scratch{dir: filepath.Join(file, "run")}).folder()
	require.ErrorIs(t, err, syscall.ENOTDIR)
	assert.Contains(t, err.Error(), "\nhint: QQ_HOME names a folder that you may write to")
}

// TestSpill: results come back as they were, in any order, and a batch that puts
// none needs no file.
func TestSpill(t *testing.T) {
	asked := 0
	dir := t.TempDir()
	s := &spill{folder: func() (string, error) { asked++; return dir, nil }}
	assert.Zero(t, asked)
	var keys []int64
	var put []task.Result
	for _, text := range []string{"one", "two\nlines", "", "no text: \xff\x00"} {
		r := task.Task{Text: text}.Ended(task.Failed, text)
		r.Task, r.Error = "a task", nil // they are text
		r.Output = text
		r.Forgotten, r.Unrecorded, r.Effects = text == "", text == "one", text == "one"
		key, err := s.Put(r)
		require.NoError(t, err)
		put, keys = append(put, r), append(keys, key)
	}
	for _, i := range []int{2, 0, 3, 1} {
		r, err := s.Take(keys[i])
		require.NoError(t, err)
		assert.Equal(t, put[i], r)
	}
	assert.Equal(t, 1, asked)
	s.close()
	(&spill{}).close()
}

// TestPruneOutputs: what is old goes, and nothing else.
func TestPruneOutputs(t *testing.T) {
	home := t.TempDir()
	gone, err := PruneOutputs(home, 0)
	require.NoError(t, err, "nothing was kept yet")
	assert.Empty(t, gone)
	require.NoError(t, os.MkdirAll(filepath.Join(outputs(home), "folder"), 0o700))
	old, fresh := filepath.Join(outputs(home), "old.txt"), filepath.Join(outputs(home), "fresh.txt")
	for _, f := range []string{old, fresh} {
		require.NoError(t, os.WriteFile(f, nil, 0o600))
	}
	then := time.Now().Add(-48 * time.Hour)
	require.NoError(t, os.Chtimes(old, then, then))
	gone, err = PruneOutputs(home, 24*time.Hour)
	require.NoError(t, err)
	assert.Equal(t, []string{old}, gone)
	assert.FileExists(t, fresh)
	assert.NoFileExists(t, old)
}
