package scenario

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ollama/ollama/api"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// canary stands in all files of secrets.
const canary = "CANARY-5521"

// lookFor has an agent make calls, and returns their results.
func (w *world) lookFor(m *workModel, flags []string, calls ...api.ToolCall) []string {
	w.t.Helper()
	var results []string
	m.agents["look"] = workSteps(workDo(calls...), func(_ context.Context, k workTalk) api.Message {
		results = k.results()
		return api.Message{Role: "assistant", Content: "Looked."}
	})
	w.qq(append([]string{"Look. [[look]]", "--agent", "coder"}, flags...)...)
	require.Len(w.t, results, len(calls))
	return results
}

// TestSecretsByName: no tool reads a file that looks like secrets without an approval of its own,
// whatever is allowed in general; with --auto-approve it does.
func TestSecretsByName(t *testing.T) {
	names := []string{".env", "prod.env", ".envrc", ".git/config", "aws-credentials.json", "credentials", "id_work",
		"terraform.tfstate", "kubeconfig", ".config/gh/hosts.yml", ".config/gcloud/access_tokens.db", "rclone.conf",
		".docker/config.json", ".npmrc", ".bash_history", "keys.kdbx", "secrets.yml", "Prod.ENV", ".AWS/config"}
	m := workPlay(t, map[string]workAgent{})
	w := newWorld(t, m.addr, played)
	for _, name := range names {
		w.file(name, "token="+canary+"\n")
	}
	require.NoError(t, os.Symlink("prod.env", filepath.Join(w.work, "innocent.txt")))
	w.file("vault/real.txt", "token="+canary+"\n")
	require.NoError(t, os.Symlink("vault/real.txt", filepath.Join(w.work, "staging.env")))
	general := []string{"--allow", "read_file", "--allow", "grep_file", "--allow", "list_files"}
	for _, name := range append(names, "innocent.txt", "staging.env") {
		t.Run(name, func(t *testing.T) {
			for i, r := range w.lookFor(m, general, workCall("read_file", "path", name),
				workCall("grep_file", "path", name, "pattern", "token")) {
				assert.NotContains(t, r, canary, "call %d", i)
			}
			r := w.lookFor(m, []string{"--auto-approve"}, workCall("read_file", "path", name))
			assert.Contains(t, r[0], canary, "a person's word counts")
		})
	}
	require.NoError(t, os.RemoveAll(filepath.Join(w.work, "vault")))
	found := w.lookFor(m, general, workCall("grep_file", "pattern", "token"))[0]
	assert.NotContains(t, found, canary)
	assert.Contains(t, found, "files that look like secrets were skipped")
}

// TestNoSecretsInSources: sources, documents and examples are read as ever.
func TestNoSecretsInSources(t *testing.T) {
	names := []string{"credentials.go", "secret_manager.py", ".env.example", "id_map.ts", "docs/secrets.md",
		"tokens.json", "id_rsa.pub", "history.go"}
	m := workPlay(t, map[string]workAgent{})
	w := newWorld(t, m.addr, played)
	var calls []api.ToolCall
	for _, name := range names {
		w.file(name, "harmless\n")
		calls = append(calls, workCall("read_file", "path", name))
	}
	for i, r := range w.lookFor(m, nil, calls...) {
		assert.Equal(t, "harmless\n", r, names[i])
	}
}

// TestOwnFolders: the files of qq itself need an approval of their own, also for an agent that works
// above or in them.
func TestOwnFolders(t *testing.T) {
	for _, from := range []string{".", "settings/qq", "settings/qq/agents", "state/sessions"} {
		t.Run(from, func(t *testing.T) {
			m := workPlay(t, map[string]workAgent{})
			w := newWorld(t, m.addr, played)
			w.env = append(w.env, "XDG_CONFIG_HOME="+filepath.Join(w.work, "settings"),
				"QQ_HOME="+filepath.Join(w.work, "state"))
			w.file("settings/qq/agents/mine.md", "---\nname: mine\ndescription: "+canary+"\n---\nx\n")
			w.file("state/sessions/old.txt", canary+"\n")
			top := w.work
			w.work = filepath.Join(top, from)
			var calls []api.ToolCall
			for _, name := range []string{"settings/qq/agents/mine.md", "state/sessions/old.txt"} {
				rel, err := filepath.Rel(w.work, filepath.Join(top, name))
				require.NoError(t, err)
				if !filepath.IsLocal(rel) {
					continue
				}
				calls = append(calls, workCall("read_file", "path", rel), workCall("grep_file", "pattern", "CANARY"),
					workCall("write_file", "path", filepath.Join(filepath.Dir(rel), "new.md"), "content", "x"))
			}
			require.NotEmpty(t, calls)
			for i, r := range w.lookFor(m, []string{"--allow", "read_file", "--allow", "write_file"}, calls...) {
				assert.NotContains(t, r, canary, "call %d", i)
				if i%3 != 1 {
					assert.Contains(t, r, "is one of qq's own files", "call %d", i)
				}
			}
			left, err := filepath.Glob(filepath.Join(top, "*", "*", "*", "new.md"))
			require.NoError(t, err)
			assert.Empty(t, strings.Join(left, " "))
		})
	}
}

// TestHomeAsWorkingDirectory: in the home directory, or above it, --allow covers changes only after a
// person has confirmed one of them; --auto-approve is a person's word.
func TestHomeAsWorkingDirectory(t *testing.T) {
	m := workPlay(t, map[string]workAgent{})
	var results []string
	m.agents["write"] = workSteps(
		workDo(workCall("write_file", "path", "one.txt", "content", "1")),
		workDo(workCall("write_file", "path", "two.txt", "content", "2")),
		func(_ context.Context, k workTalk) api.Message {
			results = k.results()
			return api.Message{Role: "assistant", Content: "Written."}
		})
	start := func(t *testing.T, home string) *world {
		w := newWorld(t, m.addr, played)
		w.file("project/README.md", "x\n")
		w.env = append(w.env, "HOME="+filepath.Join(w.work, home))
		return w
	}
	written := func(w *world) bool {
		_, err := os.Stat(filepath.Join(w.work, "two.txt"))
		return err == nil
	}
	for home, why := range map[string]string{
		".":       "the working directory is your home directory",
		"me/home": "the working directory is a folder above your home directory",
	} {
		t.Run("refused with HOME in "+home, func(t *testing.T) {
			w := start(t, home)
			e := w.qq("Write. [[write]]", "--agent", "coder", "--allow", "write_file")
			assert.Equal(t, 1, e.code, "refused")
			require.Len(t, results, 2)
			for _, r := range results {
				assert.Contains(t, r, why)
				assert.Contains(t, r, "--auto-approve")
			}
			assert.False(t, written(w))
			e = w.start("Write. [[write]]\n", "batch", "--no-bar", "--agent", "coder", "--allow", "write_file").wait()
			assert.Equal(t, 4, e.code, "of a child too")
			assert.False(t, written(w))
		})
	}
	t.Run("allowed", func(t *testing.T) {
		w := start(t, ".")
		w.qq("Write. [[write]]", "--agent", "coder", "--auto-approve").answered("Written.")
		assert.True(t, written(w))
	})
	t.Run("a folder below", func(t *testing.T) {
		w := start(t, ".")
		w.qq("Write. [[write]]", "--agent", "coder", "--allow", "write_file", "-C", "project").answered("Written.")
	})
	t.Run("asked once", func(t *testing.T) {
		w := start(t, ".")
		s := w.onTerminal("Write. [[write]]", "--agent", "coder", "--allow", "write_file")
		question := s.answer(1, "o")
		assert.Contains(t, strings.Join(strings.Fields(question), " "), "the working directory is your home directory")
		s.wait().answered("Written.")
		assert.Len(t, s.questions(), 1)
		assert.True(t, written(w))
	})
}
