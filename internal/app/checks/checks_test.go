package checks

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qq/internal/config/trust"
	"qq/internal/taskfile"
	"qq/pkg/agents"
	"qq/pkg/task"
)

// TestOrigin: a person gave the checks of a file that is in no checkout, or whose content that person trusts.
func TestOrigin(t *testing.T) {
	top := t.TempDir()
	store := trust.In(filepath.Join(top, "home"))
	write := func(name, text string) string {
		path := filepath.Join(top, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	decide := func(path, text string, trusted bool) {
		sum := sha256.Sum256([]byte(text))
		files := map[string]string{filepath.Base(path): hex.EncodeToString(sum[:])}
		require.NoError(t, store.Folder(filepath.Dir(path)).Decide(files, trusted))
	}
	given := func(path string, change ...string) Vouch {
		src := taskfile.Source{Name: path}
		o := Begin(&src, filepath.Join(top, "work"), store)
		if src.Input != nil {
			b := make([]byte, 3) // a reader of an array does not read what follows it
			_, err := io.ReadFull(src.Input, b)
			require.NoError(t, err)
		}
		for _, text := range change {
			require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		}
		return o.End()
	}
	const text = `{"task":"x","check":"make"}`
	own, inside := write("own/tasks.jsonl", text), write("work/sub/tasks.jsonl", text)
	other := write("repo/sub/tasks.jsonl", text)
	write("repo/.git/HEAD", "")
	assert.Equal(t, Given, given(own))
	assert.Equal(t, Nobody, given(inside), "below the working directory")
	assert.Equal(t, Nobody, given(other), "in a repository")
	link, out := filepath.Join(top, "own/link"), filepath.Join(top, "work/link")
	require.NoError(t, os.Symlink(other, link))
	require.NoError(t, os.Symlink(own, out))
	assert.Equal(t, Nobody, given(link), "a link into a checkout")
	assert.Equal(t, Nobody, given(out), "a link of a checkout, which chose the file")
	assert.Equal(t, Nobody, given(filepath.Join(top, "work", "gone")))

	for _, path := range []string{inside, other} {
		decide(path, text, false)
		assert.Equal(t, Nobody, given(path), "a person said no")
		decide(path, text, true)
		assert.Equal(t, Trusted, given(path))
		assert.Equal(t, Nobody, given(path, text+"\n"), "it was changed while it was read")
		assert.Equal(t, Nobody, given(path), "it has changed")
	}

	decide(own, text, true)
	assert.Equal(t, Trusted, given(own), "also what a model wrote in it")
	assert.Equal(t, Given, given(own, text+"\n"), "it has changed")

	piped := taskfile.Source{Name: "stdin", Input: os.Stdin}
	assert.Equal(t, Nobody, Begin(&piped, top, store).End())
	assert.Equal(t, Nobody, Begin(&taskfile.Source{Files: []string{own}}, top, store).End())
}

// staff are the agents of a test.
type staff struct{}

func (staff) Agent(name string) (agents.Agent, error) {
	if name == "explorer" {
		return agents.Agent{Name: name, Role: agents.Gathering}, nil
	}
	return agents.Agent{Name: name}, nil
}

// TestComplete: the flags are for tasks that may change something. A check of the task goes before that of the flag.
func TestComplete(t *testing.T) {
	for _, c := range []struct {
		name     string
		flags    Options
		task     task.Task
		readOnly bool
		vouch    Vouch
		want     task.Task
	}{
		{"no flags", Options{}, task.Task{}, false, Nobody, task.Task{}},
		{"a flag", Options{check: "make"}, task.Task{}, false, Nobody, task.Task{Check: "make"}},
		{"its own", Options{check: "make"}, task.Task{Check: "true"}, false, Given, task.Task{Check: "true"}},
		{"a stranger's", Options{check: "make"}, task.Task{Check: "true"}, false, Nobody,
			task.Task{Check: "true", CheckAsked: true}},
		{"of a model", Options{}, task.Task{Check: "true", CheckAsked: true}, false, Given,
			task.Task{Check: "true", CheckAsked: true}},
		{"of a model, looked at", Options{}, task.Task{Check: "true", CheckAsked: true}, false, Trusted,
			task.Task{Check: "true"}},
		{"nothing to ask", Options{check: "make"}, task.Task{CheckAsked: true}, false, Nobody,
			task.Task{Check: "make"}},
		{"the run reads", Options{check: "make", requireChange: true}, task.Task{}, true, Nobody, task.Task{}},
		{"the task reads", Options{check: "make"}, task.Task{ReadOnly: true}, false, Nobody, task.Task{ReadOnly: true}},
		{"the agent reads", Options{check: "make"}, task.Task{Agent: "explorer"}, false, Nobody,
			task.Task{Agent: "explorer"}},
		{"a change", Options{requireChange: true}, task.Task{}, false, Nobody, task.Task{RequireChange: true}},
	} {
		assert.Equal(t, c.want, c.flags.Complete(c.task, staff{}, c.readOnly, c.vouch), c.name)
		flag := c.flags.check != "" || c.flags.requireChange
		used := c.want.Check != "" || c.want.RequireChange
		assert.Equal(t, flag && !used, c.flags.Unused() != nil, c.name)
	}
}

// TestListed: a person who trusts a file was shown each check of it.
func TestListed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tasks")
	listed := func(text string) ([]string, error) {
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		lines, sum, err := Listed(path)
		if err == nil {
			want := sha256.Sum256([]byte(text))
			assert.Equal(t, hex.EncodeToString(want[:]), sum)
		}
		return lines, err
	}
	for _, text := range []string{
		`[{"task":"a","check":"make"},{"task":"b"},{"task":"c","check":"make"},{"task":"d","check":"go vet"}]`,
		"{\"task\":\"a\",\"check\":\"make\"}\n\n{\"task\":\"d\",\"check\":\"go vet\"}\n",
		"\xef\xbb\xbf" + `{"task":"a","check":"make"}` + "\r\n" + `{"task":"d","check":"go vet"}`,
	} {
		lines, err := listed(text)
		require.NoError(t, err)
		assert.Equal(t, []string{"make", "go vet"}, lines)
	}
	for _, text := range []string{
		"{\"task\":\"a\",\"check\":\"make\"}\n{\"task\":\"b\",\n\"check\":\"hidden\"}\n", // for qq batch -0
		`[{"task":"a","check":"make"}] [{"task":"b","check":"hidden"}]`,
		"# a document",
	} {
		_, err := listed(text)
		assert.Error(t, err, text)
	}
}
