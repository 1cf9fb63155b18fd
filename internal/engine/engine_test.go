package engine

import (
	"encoding/json"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qq/internal/config"
	"qq/internal/tools/files"
	"qq/pkg/agents"
	"qq/pkg/event"
	"qq/pkg/llm"
	"qq/pkg/task"
)

// newEngine makes an engine for the model extract, that starts no child.
func newEngine(t *testing.T, change func(*Config)) *Engine {
	t.Helper()
	home := t.TempDir()
	cfg := Config{
		Settings: config.Config{Home: home, LogDir: filepath.Join(home, "logs"), Model: Extract, OllamaHost: "127.0.0.1:1", MaxDepth: 2},
		Dir:      t.TempDir(), Version: "test", Agents: agents.Load(nil), Note: func(string, ...any) {},
	}
	if change != nil {
		change(&cfg)
	}
	e, err := New(cfg)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, e.Close()) })
	return e
}

// TestRun: the root's own agent answers, is recorded and reports as itself.
func TestRun(t *testing.T) {
	var seen []event.Event
	e := newEngine(t, func(c *Config) {
		c.Sinks = []event.Sink{event.SinkFunc(func(e event.Event) { seen = append(seen, e) })}
	})
	require.NoError(t, os.WriteFile(filepath.Join(e.cfg.Dir, "a.md"), []byte("# Owls\n\nOwls hunt at night. Owls see well.\n"), 0o600))
	agent, m, err := e.Staff(t.Context(), task.Task{Agent: task.DefaultAgent})
	require.NoError(t, err)
	assert.Equal(t, Extract, m.String())
	var recorded []llm.Message
	out, err := e.Run(t.Context(), Run{Agent: agent, Model: m, Record: func(m llm.Message) { recorded = append(recorded, m) }}, task.Task{Text: "Summarize a.md"})
	require.NoError(t, err)
	assert.Equal(t, task.Completed, out.Status, out.Err)
	assert.Contains(t, out.Text, "Owls")
	assert.Equal(t, out.Text, recorded[len(recorded)-1].Content)
	tokens := ""
	for _, ev := range seen {
		assert.Equal(t, agent.Name, ev.Agent)
		if ev.Type == event.Token {
			tokens += ev.Text
		}
	}
	assert.Contains(t, tokens, out.Text)

	_, _, err = e.Staff(t.Context(), task.Task{Agent: "nobody"})
	assert.Error(t, err)
}

func TestRunWithoutDirectory(t *testing.T) {
	e := newEngine(t, func(c *Config) { c.Dir = filepath.Join(c.Dir, "gone") })
	_, err := e.Run(t.Context(), Run{Model: Model{Kind: Extract}}, task.Task{Text: "hello"})
	var wrong *config.Error
	require.ErrorAs(t, err, &wrong, "a mistake of a person")
	assert.Contains(t, wrong.Problem, "open the working directory: ")
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
		start, err := e.prepare(t.Context(), task.Job{Task: task.Task{Agent: task.DefaultAgent, ReadOnly: c.job}, Depth: c.depth})
		require.NoError(t, err)
		assert.Equal(t, c.readOnly, start.ReadOnly)
		assert.Equal(t, c.delegate, start.CanDelegate)
		var setup Setup
		require.NoError(t, json.Unmarshal(start.Setup, &setup))
		assert.Equal(t, Extract, setup.Model.Kind)
		assert.Empty(t, setup.TempDir, "an agent that changes nothing needs none")
		assert.False(t, start.Events)
	}
}

// TestKit: an agent gets what its definition, its model and its root allow, and
// of everything else it is known why not.
func TestKit(t *testing.T) {
	root, err := os.OpenRoot(t.TempDir())
	require.NoError(t, err)
	defer root.Close()
	space := files.Open(root)
	make := func(change func(*toolmaker)) kit {
		m := toolmaker{root: root, delegator: nobody{}, limits: ceiling{confined: true}, agent: agents.Agent{Name: "all"}}
		change(&m)
		return m.kit(space)
	}
	everything := make(func(*toolmaker) {})
	assert.Subset(t, everything.offered.Names(), []string{"read_file", "edit_file", "run_pty_cmd", "web_fetch", "delegate_task"})
	assert.Empty(t, everything.withheld)
	assert.NotContains(t, everything.offered.Names(), "ast_grep", "there is no such program")

	for _, c := range []struct {
		change func(*toolmaker)
		lost   map[string]string
	}{
		{func(m *toolmaker) { m.limits.readOnly = true }, map[string]string{"edit_file": "this agent may only read"}},
		{func(m *toolmaker) { m.limits = ceiling{readOnly: true} },
			map[string]string{"run_pty_cmd": "this agent may only read, and this system cannot keep a command from writing"}},
		{func(m *toolmaker) { m.limits.denied = []string{"web_fetch"} }, map[string]string{"web_fetch": "it is denied in this run"}},
		{func(m *toolmaker) { m.agent.Tools = []string{"read_file"} },
			map[string]string{"run_pty_cmd": "the definition of all does not give it this tool"}},
		{func(m *toolmaker) { m.delegator = nil }, map[string]string{"delegate_task": "agents at this depth cannot hand on work"}},
	} {
		k := make(c.change)
		for name, why := range c.lost {
			assert.NotContains(t, k.offered.Names(), name)
			assert.Equal(t, why, k.withheld[name].Reason)
		}
		assert.Contains(t, k.offered.Names(), "read_file")
	}
	assert.Contains(t, make(func(m *toolmaker) { m.limits.readOnly = true }).offered.Names(), "run_pty_cmd", "the kernel keeps it from writing")
}

// TestRules: who changes nothing may write nowhere, whatever it starts.
func TestRules(t *testing.T) {
	setup := Setup{TempDir: "/tmp/x", Writable: []string{"/cache"}}
	coder := agents.Agent{Name: "coder", Tools: []string{"edit_file"}}
	assert.Equal(t, []string{"/work", "/tmp/x", "/cache"}, ceiling{}.rules(coder, "/work", setup).Write)
	assert.Empty(t, ceiling{readOnly: true}.rules(coder, "/work", setup).Write)
	assert.Empty(t, ceiling{}.rules(agents.Agent{Name: "r", Tools: []string{"read_file"}}, "/work", setup).Write)
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

// TestShelf: results come back as they were, in any order, and a batch that puts
// none needs no file.
func TestShelf(t *testing.T) {
	asked := 0
	dir := t.TempDir()
	s := &shelf{folder: func() (string, error) { asked++; return dir, nil }}
	assert.Zero(t, asked)
	var keys []int64
	var put []task.Result
	for _, text := range []string{"one", "two\nlines", "", "no text: \xff\x00"} {
		r := task.Task{Text: text}.Ended(task.Failed, text)
		r.Task, r.Error = "a task", nil // they are text
		r.Output = text
		r.Unrecorded, r.Effects = text == "one", text == "one"
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
	(&shelf{}).close()
}

// TestTokenEvents: pieces are gathered, none is lost, and a turn ends with all
// that it said.
func TestTokenEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var texts []string
		tokens := &tokenEvents{emit: func(e event.Event) { texts = append(texts, e.Text) }}
		for _, piece := range []string{"a", "b", "c"} {
			tokens.Chunk(llm.Chunk{Text: piece})
		}
		assert.Equal(t, []string{"a"}, texts)
		time.Sleep(tokenInterval)
		tokens.Chunk(llm.Chunk{Text: "d"})
		tokens.Chunk(llm.Chunk{Text: "e"})
		tokens.TurnEnd(true)
		tokens.TurnEnd(true)
		assert.Equal(t, []string{"a", "bcd", "e"}, texts)
	})
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
