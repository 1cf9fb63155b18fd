package app

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qq/internal/app/batch/foreign"
	"qq/internal/app/bounds"
	"qq/internal/app/manual"
	"qq/internal/config"
	"qq/internal/models/servers"
	"qq/pkg/agents"
	"qq/pkg/supervisor"
	"qq/pkg/task"
)

// TestEnvExample keeps .env.example equal to the settings; -update rewrites it.
func TestEnvExample(t *testing.T) {
	path := filepath.Join("..", "..", ".env.example")
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(envExample()), 0o666))
	}
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, envExample(), string(text), "go test ./internal/app -update")
}

// TestSettings: every setting is in both documents, on one line.
func TestSettings(t *testing.T) {
	table, example := settingsTable(), envExample()
	assert.Contains(t, table, "| `QQ_MAX_PARALLEL` | `--jobs` | `5` | children that run at the same time")
	assert.Contains(t, example, "\n# QQ_MODEL=auto\n")
	assert.Contains(t, example, "\n# Default: $QQ_HOME/logs\nQQ_LOG_DIR=logs\n")
	for _, s := range config.Settings() {
		assert.Contains(t, table, "| `"+s.Name+"` |")
		assert.Contains(t, example, s.Name+"=")
		assert.NotContains(t, s.Doc, "\n")
	}
}

// reach says when a setting in the .env of a checkout counts.
func reach(s config.Setting) string {
	if chosen, ok := map[string]string{ // see command.Checkout
		"QQ_MODEL": "yes; a cloud model after `qq trust`", "QQ_AGENT": "yes; an agent of the checkout after `qq trust`",
	}[s.Name]; ok {
		return chosen
	}
	return map[config.Reach]string{
		config.Trusted: "after `qq trust`", config.Lowers: "only lower, or after `qq trust`",
		config.Harmless: "yes", config.Never: "no",
	}[s.Checkout]
}

// settingsTable renders the settings for the README.
func settingsTable() string {
	var b strings.Builder
	b.WriteString("| variable | flag | default | meaning | from a checkout |\n|---|---|---|---|---|\n")
	for _, s := range config.Settings() {
		flag := ""
		if s.Flag != "" {
			flag = "`--" + s.Flag + "`"
		}
		fmt.Fprintf(&b, "| `%s` | %s | `%s` | %s | %s |\n", s.Name, flag, s.Default, s.Doc, reach(s))
	}
	return b.String()
}

// envExample renders .env.example: every setting with its default, as a comment
// unless the example sets it.
func envExample() string {
	var b strings.Builder
	b.WriteString("# Settings of qq. Copy this file to .env and change what you need.\n" +
		"# Precedence: flag > environment > .env here > $XDG_CONFIG_HOME/qq/.env > default.\n" +
		"# A .env here may come with a checkout that a stranger wrote. So some settings count only\n" +
		"# after qq trust, which shows their lines and asks, and until this file changes.\n" +
		"# In $XDG_CONFIG_HOME/qq/.env all of them count.\n")
	for _, s := range config.Settings() {
		fmt.Fprintf(&b, "\n# %s\n", s.Doc)
		if reach(s) != "yes" {
			fmt.Fprintf(&b, "# From a checkout: %s.\n", strings.ReplaceAll(reach(s), "`", ""))
		}
		if s.Example != "" {
			fmt.Fprintf(&b, "# Default: %s\n%s=%s\n", s.Default, s.Name, s.Example)
		} else {
			fmt.Fprintf(&b, "# %s=%s\n", s.Name, s.Default)
		}
	}
	return b.String()
}

// TestReadme keeps what README.md repeats of the code equal to it; -update
// rewrites it.
func TestReadme(t *testing.T) {
	path := filepath.Join("..", "..", "README.md")
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	readme := string(data)
	root := newRoot(Streams{}, nil)
	commands := manual.Commands(root.cli())
	root.close()
	for _, part := range []struct{ name, want string }{
		{"commands", "```text\n" + commands + "```\n"},
		{"agents", agentTable(t)},
		{"settings", settingsTable()},
		{"exit codes", exitCodeTable()},
	} {
		begin, end := "<!-- begin "+part.name+" -->\n", "<!-- end "+part.name+" -->\n"
		before, rest, found := strings.Cut(readme, begin)
		require.True(t, found, "README.md has no %q", begin)
		got, after, found := strings.Cut(rest, end)
		require.True(t, found, "README.md has no %q", end)
		if *update {
			readme, got = before+begin+part.want+end+after, part.want
		}
		assert.Equal(t, part.want, got, "%s: go test ./internal/app -update", part.name)
	}
	if *update && readme != string(data) {
		require.NoError(t, os.WriteFile(path, []byte(readme), 0o666))
	}
}

// TestParallelPage keeps the flags that docs/parallel.md says to be missing equal to those that the command knows;
// -update rewrites them.
func TestParallelPage(t *testing.T) {
	path := filepath.Join("..", "..", "docs", "parallel.md")
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	begin, end := "<!-- begin flags -->\n", "<!-- end flags -->\n"
	before, rest, found := strings.Cut(string(data), begin)
	require.True(t, found)
	got, after, found := strings.Cut(rest, end)
	require.True(t, found)
	if *update {
		got = foreign.Table()
		require.NoError(t, os.WriteFile(path, []byte(before+begin+got+end+after), 0o666))
	}
	assert.Equal(t, foreign.Table(), got, "go test ./internal/app -update")
	for line := range strings.Lines(got) {
		assert.Equal(t, 3, strings.Count(line, "|")-strings.Count(line, `\|`), "two cells: %s", line)
	}
}

// TestModelsPage keeps the servers and the words of a server's description that docs/models.md shows equal to those
// that qq knows; -update rewrites the servers. The examples of the page are typed in test/scenario.
func TestModelsPage(t *testing.T) {
	path := filepath.Join("..", "..", "docs", "models.md")
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	between := func(name string) (before, got, after string) {
		begin, end := "<!-- begin "+name+" -->\n", "<!-- end "+name+" -->\n"
		before, rest, found := strings.Cut(string(data), begin)
		require.True(t, found)
		got, after, found = strings.Cut(rest, end)
		require.True(t, found)
		return before + begin, got, end + after
	}
	before, got, after := between("servers")
	if *update {
		got = serverTable()
		require.NoError(t, os.WriteFile(path, []byte(before+got+after), 0o666))
	}
	assert.Equal(t, serverTable(), got, "go test ./internal/app -update")

	_, words, _ := between("options")
	for _, kind := range servers.Kinds() {
		assert.Contains(t, words, "`"+kind+"`")
	}
	_, err = servers.Parse("lab", "openai http://10.0.0.7/v1 unknown")
	wrong, ok := errors.AsType[*servers.Mistake](err)
	require.True(t, ok)
	options := strings.TrimPrefix(wrong.Hint, "the options are ")
	require.NotEqual(t, wrong.Hint, options)
	options, _, _ = strings.Cut(options, ";")
	rows := 2 // the kind and the address
	for option := range strings.SplitSeq(options, ", ") {
		assert.Contains(t, words, "\n| `"+option)
		rows++
	}
	assert.Equal(t, rows, strings.Count(words, "\n| `"), "no other word")
}

// serverTable has the built-in servers.
func serverTable() string {
	var b strings.Builder
	b.WriteString("| server | dialect | address | key |\n|---|---|---|---|\n")
	for _, s := range servers.BuiltIn() {
		address, key := "`"+s.URL+"`", "none"
		if s.Name == servers.Ollama {
			address = "`OLLAMA_HOST`, else `http://127.0.0.1:11434`"
		}
		if s.KeyName != "" {
			key = "`" + s.KeyName + "`"
		}
		fmt.Fprintf(&b, "| `%s` | `%s` | %s | %s |\n", s.Name, s.Kind, address, key)
	}
	return b.String()
}

// agentTable says of each built-in agent what it may do, its limits, and what it is for.
func agentTable(t *testing.T) string {
	var b strings.Builder
	b.WriteString("| agent | may | turns | time | what it does |\n|---|---|---|---|---|\n")
	for _, e := range agents.Load(nil).List() {
		require.NoError(t, e.Err)
		may := []string{"read"}
		for _, can := range []struct{ tool, what string }{
			{"web_fetch", "web"}, {"edit_file", "change files"}, {"run_pty_cmd", "run commands"},
			{"delegate_task", "hand on work"},
		} {
			if e.Agent.Allows(can.tool) {
				may = append(may, can.what)
			}
		}
		what, more, _ := strings.Cut(e.Agent.Description, ". ")
		if len(what) < 20 { // a title
			what, _, _ = strings.Cut(more, ". ")
		}
		fmt.Fprintf(&b, "| `%s` | %s | %d | %g s | %s |\n", e.Agent.Name, strings.Join(may, ", "), e.Agent.MaxTurns,
			e.Agent.Timeout.Seconds(), strings.TrimSuffix(what, "."))
	}
	return b.String()
}

// TestReadmeLimits: without a word of a person, each agent has the limits of the tables.
func TestReadmeLimits(t *testing.T) {
	data, err := os.ReadFile(filepath.Join("..", "..", "README.md"))
	require.NoError(t, err)
	cell := func(row string) time.Duration { // the first number of the first row that matches
		m := regexp.MustCompile(`(?m)^\| ` + row).FindStringSubmatch(string(data))
		require.NotNil(t, m, row)
		d, err := time.ParseDuration(m[1] + "s")
		require.NoError(t, err)
		return d
	}
	set, err := config.Load(config.Input{Environ: []string{"HOME=" + t.TempDir()}})
	require.NoError(t, err)
	folder := t.TempDir()
	plain := "---\nname: plain\ndescription: has no limits\n---\nYou answer.\n"
	require.NoError(t, os.WriteFile(filepath.Join(folder, "plain.md"), []byte(plain), 0o600))
	reg := agents.Load([]agents.Dir{{Path: folder}})
	var jobs limited
	s := supervisor.New(supervisor.Config{Limits: bounds.Of(set), Agents: reg, Launcher: &jobs})
	timeout := cell("`QQ_CHILD_TIMEOUT` [|] `--timeout` [|] `(\\d+)`")
	idle := cell("`QQ_IDLE_TIMEOUT` [|] `--idle-timeout` [|] `(\\d+)`")
	for _, e := range reg.List() {
		jobs = nil
		one := task.Task{Text: "x", Agent: e.Agent.Name}
		require.NoError(t, s.Batch(t.Context(), supervisor.Batch{Tasks: supervisor.Tasks(one), Results: dropped{}}))
		_, err := s.Run(t.Context(), one, "", &jobs)
		require.NoError(t, err)
		require.Len(t, jobs, 2)
		child, prompt := timeout, time.Duration(0)
		if e.Agent.Name != "plain" {
			child = cell("`" + e.Agent.Name + "` [|] [^|]+ [|] \\d+ [|] (\\d+) s [|]")
			prompt = child
		}
		assert.Equal(t, []time.Duration{child, prompt, idle, idle},
			[]time.Duration{jobs[0].Allowed, jobs[1].Allowed, jobs[0].Idle, jobs[1].Idle}, e.Agent.Name)
	}
}

// limited is a launcher that keeps the jobs and runs nothing.
type limited []task.Job

func (l *limited) Launch(_ context.Context, job task.Job, _ supervisor.Parent) task.Result {
	*l = append(*l, job)
	return job.Ended(task.Completed, "")
}

// dropped receives results that nobody wants.
type dropped struct{}

func (dropped) Deliver(task.Result) error { return nil }
func (dropped) Done(task.Result)          {}

// TestReadmeTools: the table of tools has each tool, and no other.
func TestReadmeTools(t *testing.T) {
	data, err := os.ReadFile(filepath.Join("..", "..", "README.md"))
	require.NoError(t, err)
	_, rest, found := strings.Cut(string(data), "\n## Tools\n")
	require.True(t, found)
	table, _, _ := strings.Cut(rest, "\n## ")
	var names []string
	for _, row := range regexp.MustCompile(`(?m)^\| (`+"`"+`[^|]+) \|`).FindAllStringSubmatch(table, -1) {
		for name := range strings.FieldsSeq(row[1]) {
			names = append(names, strings.Trim(name, "`"))
		}
	}
	assert.ElementsMatch(t, agents.KnownTools(), names)
}

// TestDocsNameWhatExists: the files and folders that the documents name are there.
func TestDocsNameWhatExists(t *testing.T) {
	top := filepath.Join("..", "..")
	paths, err := filepath.Glob(filepath.Join(top, "docs", "*.md"))
	require.NoError(t, err)
	require.NotEmpty(t, paths)
	named := regexp.MustCompile("(?:`|\\]\\()((?:cmd|docs|internal|pkg|test)/[^`) ]+|[a-z_]+\\.go)(?:`|\\))")
	for _, path := range append(paths, filepath.Join(top, "README.md")) {
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		for _, m := range named.FindAllSubmatch(text, -1) {
			assert.FileExistsf(t, existing(top, string(m[1])), "%s names %s", filepath.Base(path), m[1])
		}
	}
}

// existing is the path of what a document names: for a folder, something in it.
func existing(top, name string) string {
	path := filepath.Join(top, name)
	if inside, err := filepath.Glob(filepath.Join(path, "*.*")); err == nil && len(inside) > 0 {
		return inside[0]
	}
	return path
}

func exitCodeTable() string {
	var b strings.Builder
	b.WriteString("| code | meaning |\n|---|---|\n")
	for _, e := range manual.ExitCodes() {
		fmt.Fprintf(&b, "| %d | %s |\n", e.Code, e.Meaning)
	}
	return b.String()
}
