package scenario

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/ollama/ollama/api"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qq/test/terminal"
)

// rawModel is a model server whose chats write answers, byte by byte. It returns its
// address. The context of its model is small, so an answer has at most 8 MiB.
func rawModel(t *testing.T, write func(w http.ResponseWriter, r *http.Request)) string {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("POST /api/show", func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(map[string]any{
			"model_info":   map[string]any{"general.architecture": "llama", "llama.context_length": 8192},
			"capabilities": []string{"completion", "tools"},
		})
	})
	mux.HandleFunc("POST /api/chat", write)
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s.Listener.Addr().String()
}

// maxAnswer is the bound of an answer of a rawModel.
const maxAnswer = 8 << 20

// endlessText writes text until nobody reads any more, but no more than 64 MiB: that is enough to
// tell a program that has no bound.
func endlessText(w http.ResponseWriter, _ *http.Request) {
	part, _ := json.Marshal(strings.Repeat("all work and no play ", 3000))
	line := fmt.Sprintf(`{"message":{"content":%s}}`+"\n", part)
	for n := 0; n < 64<<20; n += len(line) {
		if _, err := io.WriteString(w, line); err != nil {
			return
		}
	}
	_, _ = io.WriteString(w, `{"done":true,"done_reason":"stop"}`+"\n")
}

const tooLong = "did not end: it was cut after 8 MiB"

// TestEndlessAnswer: an answer without end is cut at 8 MiB; the task fails, and the text up to
// there is kept.
func TestEndlessAnswer(t *testing.T) {
	var asked atomic.Int64
	addr := rawModel(t, func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		endlessText(w, r)
	})
	t.Run("of the root", func(t *testing.T) {
		asked.Store(0)
		r := newWorld(t, addr, played).qq("-m", "Say something.", "--output-format", "json").failed(1, "failed")
		assert.Contains(t, *r.Error, tooLong)
		assert.Greater(t, len(*r.Output), maxAnswer*9/10, "what came is kept")
		assert.LessOrEqual(t, len(*r.Output), maxAnswer)
		assert.EqualValues(t, 1, asked.Load(), "it is not asked again")
	})
	t.Run("of a child", func(t *testing.T) {
		w := newWorld(t, addr, played, "QQ_MAX_OUTPUT=20000000")
		e := w.start("Say something.\n", "batch", "--no-bar", "--output-format", "jsonl").wait()
		assert.Equal(t, 4, e.code)
		r := parse(t, e.stdout)
		assert.Equal(t, "failed", r.Status)
		require.NotNil(t, r.Error)
		assert.Contains(t, *r.Error, tooLong)
		assert.Greater(t, len(*r.Output), maxAnswer*9/10)
		assert.LessOrEqual(t, len(*r.Output), maxAnswer)
	})
	t.Run("as events", func(t *testing.T) {
		w := newWorld(t, addr, played)
		e := w.start("Say something.\n", "batch", "--no-bar", "--output-format", "stream-json").wait()
		assert.Equal(t, 4, e.code)
		text := 0
		for line := range strings.Lines(e.stdout) {
			var ev struct{ Type, Text string }
			require.NoError(t, json.Unmarshal([]byte(line), &ev))
			if ev.Type == "token" {
				text += len(ev.Text)
				assert.LessOrEqual(t, len(ev.Text), 64<<10, "one event")
			}
		}
		assert.Greater(t, text, maxAnswer*9/10)
	})
	t.Run("on a terminal", func(t *testing.T) {
		shown, stderr, code := newWorld(t, addr, played).toTerminal("-m", "Say something.")
		assert.Equal(t, 1, code)
		assert.Contains(t, stderr, tooLong)
		assert.Greater(t, len(shown), maxAnswer*9/10)
		assert.LessOrEqual(t, len(shown), maxAnswer+1000)
	})
}

// toTerminal runs qq with its stdout on a terminal. It returns what was shown there and on stderr,
// and the exit code.
func (w *world) toTerminal(args ...string) (shown, stderr string, code int) {
	w.t.Helper()
	person, program, err := terminal.Open()
	require.NoError(w.t, err)
	defer person.Close()
	cmd := exec.CommandContext(w.t.Context(), w.bin, args...)
	var errs strings.Builder
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = w.work, w.env, program, &errs
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	require.NoError(w.t, cmd.Start())
	timeout := time.AfterFunc(runTimeout, func() { _ = cmd.Process.Kill() })
	defer timeout.Stop()
	require.NoError(w.t, program.Close())
	text, err := io.ReadAll(person) // ends with EIO when nobody has the other end any more
	require.ErrorIs(w.t, err, syscall.EIO)
	_ = cmd.Wait() // the exit code says it
	return string(text), errs.String(), cmd.ProcessState.ExitCode()
}

// TestNothingAfterDone: what a server sends after the end of an answer is no part of it, and nobody
// waits for it.
func TestNothingAfterDone(t *testing.T) {
	const done = `{"message":{"content":"The answer."},"done":true,"done_reason":"stop"}` + "\n"
	for name, after := range map[string]func(w http.ResponseWriter, r *http.Request){
		"text": func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprintln(w, `{"message":{"content":" Now send me your keys."}}`)
		},
		"an error": func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprintln(w, `{"error":"it died"}`)
		},
		"without end": endlessText,
		"silence": func(w http.ResponseWriter, r *http.Request) {
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		},
	} {
		t.Run(name, func(t *testing.T) {
			addr := rawModel(t, func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.WriteString(w, done)
				after(w, r)
			})
			newWorld(t, addr, played).qq("-m", "Ask.", "--timeout", "0", "--idle-timeout", "0").answered("The answer.")
			w := newWorld(t, addr, played)
			w.start("Ask.\n", "batch", "--no-bar", "--timeout", "0", "--idle-timeout", "0").wait().answered("The answer.")
		})
	}
}

// TestImplausibleUsage: counts that cannot be true are not believed.
func TestImplausibleUsage(t *testing.T) {
	for _, counts := range []string{
		`"prompt_eval_count":-5,"eval_count":-1000000`,
		`"prompt_eval_count":999999999999,"eval_count":999999999999`,
		`"prompt_eval_count":1e300,"eval_count":1e300`,
	} {
		addr := rawModel(t, func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprintln(w, `{"message":{"content":"Yes."},"done":true,"done_reason":"stop",`+counts+`}`)
		})
		w := newWorld(t, addr, played)
		r := w.qq("-m", "Is it?", "--output-format", "json", "--max-tokens", "100000").json()
		assert.Equal(t, "Yes.", *r.Output, counts)
		assert.Positive(t, r.Usage.InputTokens, counts)
		assert.Less(t, r.Usage.InputTokens, 8192, counts)
		assert.Positive(t, r.Usage.OutputTokens, counts)
		assert.Less(t, r.Usage.OutputTokens, 100, counts)
	}
}

// TestRoomIsAskedFor: a request asks for no more tokens than its context holds.
func TestRoomIsAskedFor(t *testing.T) {
	var options map[string]any
	addr := rawModel(t, func(w http.ResponseWriter, r *http.Request) {
		var asked api.ChatRequest
		if assert.NoError(t, json.NewDecoder(r.Body).Decode(&asked)) {
			options = asked.Options
		}
		fmt.Fprintln(w, `{"message":{"content":"Yes."},"done":true,"done_reason":"stop"}`)
	})
	newWorld(t, addr, played).qq("-m", "Is it?").answered("Yes.")
	room, ok := options["num_predict"].(float64)
	require.True(t, ok, "%v", options)
	assert.Positive(t, room)
	assert.Less(t, room, options["num_ctx"])
}

// TestLineWithoutEnd: a line of a server that never ends costs little memory, and the task ends.
func TestLineWithoutEnd(t *testing.T) {
	addr := rawModel(t, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"message":{"content":"`)
		for range 1 << 10 {
			if _, err := io.WriteString(w, strings.Repeat("x", 1<<20)); err != nil {
				return
			}
		}
	})
	w := newWorld(t, addr, played, "QQ_RETRIES=0")
	e := w.qq("-m", "Say something.", "--output-format", "json")
	e.failed(3, "broken_stream")
}

// TestFilesThatWait: no tool waits for a pipe, a device or a file of /proc that makes its reader
// wait. Each call is answered, so that the agent goes on.
func TestFilesThatWait(t *testing.T) {
	m := workPlay(t, map[string]workAgent{})
	for _, tt := range []struct {
		dir   string
		calls []api.ToolCall
	}{
		{"/proc", []api.ToolCall{workCall("read_file", "path", "kmsg"),
			workCall("grep_file", "path", "kmsg", "pattern", "x"), workCall("read_file", "path", "kcore"),
			workCall("read_file", "path", "self/pagemap")}},
		{"/dev", []api.ToolCall{workCall("read_file", "path", "zero"), workCall("read_file", "path", "tty"),
			workCall("grep_file", "path", "zero", "pattern", "x"), workCall("read_file", "path", "stdin")}},
		{"", []api.ToolCall{workCall("read_file", "path", "pipe"), workCall("grep_file", "pattern", "x"),
			workCall("grep_file", "path", "pipe", "pattern", "x"), workCall("list_directory"),
			workCall("write_file", "path", "pipe", "content", "x"),
			workCall("edit_file", "path", "pipe", "old_text", "x", "new_text", "y"), workCall("list_files")}},
	} {
		t.Run("in "+tt.dir, func(t *testing.T) {
			w := newWorld(t, m.addr, played)
			pipe := filepath.Join(w.work, "pipe")
			require.NoError(t, syscall.Mkfifo(pipe, 0o600))
			writer, err := os.OpenFile(pipe, os.O_RDWR, 0) // and says nothing
			require.NoError(t, err)
			defer writer.Close()
			flags := []string{"--allow", "write_file,edit_file", "--timeout", "0", "--idle-timeout", "0"}
			if tt.dir != "" {
				if _, err := os.Stat(tt.dir); err != nil {
					t.Skip(err)
				}
				flags = append(flags, "-C", tt.dir)
			}
			for i, r := range w.lookFor(m, flags, tt.calls...) {
				t.Logf("call %d: %.100s", i, r)
			}
		})
	}
}

// TestPipesInTheHome: a pipe in place of a file of qq is an error that names it, or is passed over,
// and nobody waits for its writer.
func TestPipesInTheHome(t *testing.T) {
	for name, args := range map[string][]string{
		"qq/ledger/x.journal":                    {"runs"},
		"qq/ledger/y.journal":                    {"doctor"},
		"qq/ledger/x.lock":                       {"runs", "--live"},
		"qq/ledger.db":                           {"runs"},
		"qq/sessions/20260101-000000-abcd.jsonl": {"sessions"},
		"qq/sessions/20260101-000000-abce.jsonl": {"sessions", "show", "20260101"},
		"config/qq/agents/a.md":                  {"agents"},
		"config/qq/.env":                         {"config"},
		"work/.qq/agents/b.md":                   {"agents", "show", "b"},
		"work/.env":                              {"config"},
		"qq/logs/child_process.log":              {"doctor"},
		"qq/run/1-x/lock":                        {"batch", "--no-bar", "--model", "extract", "tasks"},
		"qq/ledger/opening":                      {"runs"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, "127.0.0.1:1", "none")
			w.file("tasks", "Summarize: The sea is wide. The sea is deep.\n")
			path := filepath.Join(w.dir, name)
			require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
			require.NoError(t, syscall.Mkfifo(path, 0o600))
			e := w.qq(args...)
			assert.NotEqual(t, -1, e.code, "it ended by itself")
			if strings.HasSuffix(name, ".journal") {
				assert.Contains(t, e.stdout+e.stderr, "not a regular file")
			}
		})
	}
	t.Run("at the start of a batch", func(t *testing.T) {
		w := newWorld(t, "127.0.0.1:1", "none")
		require.NoError(t, syscall.Mkfifo(filepath.Join(w.dir, "qq/ledger.db"), 0o600))
		w.file("tasks", "Summarize: The sea is wide. The sea is deep.\n")
		e := w.qq("batch", "--no-bar", "--model", "extract", "tasks")
		assert.Equal(t, 1, e.code)
		assert.Contains(t, e.stderr, "ledger.db: not a regular file")
	})
}
