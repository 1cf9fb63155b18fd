package app

import (
	"encoding/json"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qq/internal/app/admin"
	"qq/internal/app/definitions"
	"qq/internal/standin"
)

// TestAgents: trusted definitions of the project hide the built-in ones and are listed as
// such, others are listed as ignored; a broken one is reported and does not affect the others.
func TestAgents(t *testing.T) {
	w := newWorld(t)
	w.file(".claude/agents/coder.md", "---\nname: coder\ndescription: ours\ntools: Read, Frob\n---\nWrite well.\n")
	w.file(".claude/agents/broken.md", "---\nname: [\n---\n")
	e := w.run("agents")
	assert.Zero(t, e.code)
	assert.Regexp(t, `(?m)^coder .* built-in \(ignored, not trusted: .*\.claude/agents/coder\.md\)  Writes`, e.out)
	assert.Contains(t, w.run("agents", "show", "coder").out, "\nnot trusted:  "+w.dir+"/.claude/agents/coder.md\n")
	assert.Zero(t, w.run("trust", "--yes").code)
	e = w.run("agents")
	assert.Zero(t, e.code)
	assert.Regexp(t, `(?m)^coder .*\.claude/agents/coder\.md \(hides built-in\)  ours$`, e.out)
	assert.Regexp(t, `(?m)^explorer .* built-in `, e.out)
	assert.Contains(t, e.errors, "broken.md:3")
	assert.Contains(t, e.errors, `coder.md:4: unknown tool "Frob"`)
	assert.Equal(t, e, w.run("agents", "list"))

	shown := w.run("agents", "show", "CODER").out
	assert.Contains(t, shown, "tools:        read_file\n")
	assert.True(t, strings.HasSuffix(shown, "\nWrite well.\n"))
	var rows []definitions.AgentRow
	require.NoError(t, json.Unmarshal([]byte(w.run("agents", "--json").out), &rows))
	assert.Len(t, rows, 12)
}

// TestConfig: each setting is printed with its source; the .env file of a project cannot
// set all of them.
func TestConfig(t *testing.T) {
	w := newWorld(t)
	w.file(".env", "QQ_MAX_PARALLEL=3\nQQ_LOG_DIR=/elsewhere\nQQ_MAX_DEPHT=2\n")
	w.set("QQ_MAX_DEPTH=4")
	e := w.run("config")
	assert.Zero(t, e.code)
	assert.Regexp(t, `(?m)^QQ_MAX_PARALLEL +3 +5 +\.env$`, e.out)
	assert.Regexp(t, `(?m)^QQ_MAX_DEPTH +4 +3 +environment$`, e.out)
	assert.Regexp(t, `(?m)^QQ_AGENT +default +default +default$`, e.out)
	assert.NotContains(t, e.out, "/elsewhere")
	assert.Regexp(t, `(?m)^QQ_LOG_DIR .* default \(\.env ignored: not trusted\)$`, e.out)
	assert.Contains(t, e.errors, "QQ_LOG_DIR in .env is ignored: this folder is not trusted; see qq trust")
	assert.Contains(t, e.errors, `"QQ_MAX_DEPHT" (.env) is no setting: did you mean QQ_MAX_DEPTH?`)
	var rows []admin.SettingRow
	require.NoError(t, json.Unmarshal([]byte(w.run("config", "--json", "-q").out), &rows))
	assert.NotEmpty(t, rows)
}

// TestDoctor: qq doctor lists what works, and a fix for what does not.
func TestDoctor(t *testing.T) {
	w, _ := newServedWorld(
		t,
		standin.Models(
			standin.Model{Name: "stand-in"},
			standin.Model{Name: "plain", Context: 2048, Capabilities: []string{"completion"}},
		),
	)
	e := w.run("doctor")
	assert.Zero(t, e.code, e.out)
	assert.Regexp(t, `(?m)^ok +model +stand-in$`, e.out)
	assert.Regexp(t, `(?m)^ok +ledger +none yet$`, e.out)
	assert.NotContains(t, e.out, "BAD")
	require.Zero(t, w.run("hello").code) // which opens no database
	assert.Regexp(t, `(?m)^ok +ledger +.*ledger.db, \d+ KiB, 0 runs at work$`, w.run("doctor").out)

	e = w.run("doctor", "--model", "ollama:plain")
	assert.Zero(t, e.code, "it works, though less well")
	assert.Regexp(t, `(?m)^note +tools +the model cannot call tools.*\n +fix: `, e.out)
	assert.Regexp(t, `(?m)^note +context +2048 tokens\n +fix: `, e.out)

	e = w.run("doctor", "--model", "ollama:none")
	assert.Equal(t, 1, e.code)
	assert.Regexp(t, `(?m)^BAD +model +.* has no model "none"\n +fix: ollama pull none`, e.out)

	down := w.with("OLLAMA_HOST=127.0.0.1:1")
	assert.Equal(t, 1, down.run("doctor").code)
	e = down.run("doctor", "--model", "auto")
	assert.Zero(t, e.code, "extract is there")
	assert.Regexp(t, `(?m)^note +model server +no answer .*\n +fix: .*ollama serve`, e.out)
	var findings []admin.Finding
	require.NoError(t, json.Unmarshal([]byte(down.run("doctor", "--json").out), &findings))
	assert.NotEmpty(t, findings)
}

// TestMan: the man page has every command and setting, and no markup of another
// language.
func TestMan(t *testing.T) {
	page := newWorld(t).run("man").out
	assert.True(t, strings.HasPrefix(page, ".TH QQ 1 "))
	for _, part := range []string{".SS qq batch", ".SS qq sessions prune", ".B QQ_MAX_PARALLEL", ".B 124"} {
		assert.Contains(t, page, part)
	}
	assert.NotContains(t, page, "`")
	assert.NotContains(t, page, "**")
	if man, err := exec.LookPath("man"); err == nil {
		show := exec.Command(man, "--warnings", "-l", "-")
		show.Stdin = strings.NewReader(page)
		var problems strings.Builder
		show.Stderr = &problems
		out, err := show.Output()
		require.NoError(t, err)
		assert.Empty(t, problems.String())
		assert.Contains(t, string(out), "EXIT STATUS")
	}
}

// TestVersionAndHelp: version and help, each as a command and as a flag.
func TestVersionAndHelp(t *testing.T) {
	w := newWorld(t)
	assert.Regexp(t, `^qq \S+ \(go1\.\S+, \w+/\w+\)\n$`, w.run("version").out)
	assert.Equal(t, w.run("version"), w.run("--version"))
	for _, part := range []string{"USAGE\n", "qq batch -m", "QQ_MAX_DEPTH", "EXIT CODES\n"} {
		assert.Contains(t, w.run("--help").out, part)
	}
	assert.Contains(t, w.run("batch", "-h").out, "--halt")
}
