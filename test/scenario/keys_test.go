package scenario

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
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
)

// keyServer is a server that speaks chat completions, and wants a key. It answers as the first user message of a
// request says: with calls at first, if the task has some, and when these have results with "Done.".
type keyServer struct {
	name, key string
	url       string
	calls     map[string][]string // arguments by the task; delegate_task, or run_pty_cmd for what is no JSON object
	held      chan struct{}       // closed when tasks with a bang may end
	echoes    bool                // it refuses each chat, with the header of the request in the error

	mu      sync.Mutex
	asked   []string // tasks
	foreign []string // keys that are not its own
	looked  int      // requests of any kind
}

func startKeyServer(t *testing.T, name string, calls map[string][]string) *keyServer {
	t.Helper()
	s := &keyServer{name: name, key: fmt.Sprintf("7%s.%d", name, time.Now().UnixNano()), calls: calls,
		held: make(chan struct{})}
	http := httptest.NewServer(s)
	t.Cleanup(http.Close)
	s.url = http.URL + "/v1"
	return s
}

// completionAsked is the part of a request that keyServer reads.
type completionAsked struct {
	Messages []struct {
		Role    string
		Content string
	}
}

// ServeHTTP implements http.Handler.
func (s *keyServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.looked++
	if got := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "); got != s.key {
		s.foreign = append(s.foreign, got)
	}
	s.mu.Unlock()
	if r.URL.Path == "/v1/models" {
		_, _ = io.WriteString(w, `{"data":[{"id":"m","context_length":32768}]}`)
		return
	}
	var asked completionAsked
	if err := json.NewDecoder(r.Body).Decode(&asked); err != nil || r.URL.Path != "/v1/chat/completions" {
		http.Error(w, "what?", http.StatusNotFound)
		return
	}
	if s.echoes {
		w.WriteHeader(http.StatusBadRequest)
		_, _ = fmt.Fprintf(w, `{"error":{"message":"these headers are odd: %v"}}`, r.Header)
		return
	}
	task := ""
	for _, m := range asked.Messages {
		if m.Role == "user" && task == "" {
			task = strings.TrimSpace(m.Content)
		}
	}
	s.mu.Lock()
	s.asked = append(s.asked, task)
	s.mu.Unlock()
	type call map[string]any
	delta, reason := map[string]any{"content": "Done."}, "stop"
	if calls := s.calls[task]; calls != nil && asked.Messages[len(asked.Messages)-1].Role == "user" {
		var all []call
		for i, arguments := range calls {
			name := "delegate_task"
			if strings.Contains(arguments, `"command"`) {
				name = "run_pty_cmd"
			}
			all = append(all, call{"index": i, "id": fmt.Sprint("c", i), "type": "function",
				"function": call{"name": name, "arguments": arguments}})
		}
		delta, reason = map[string]any{"tool_calls": all}, "tool_calls"
	} else if strings.HasSuffix(task, "!") {
		select {
		case <-s.held:
		case <-r.Context().Done():
			return
		}
	}
	w.Header().Set("Content-Type", "text/event-stream")
	event, _ := json.Marshal(map[string]any{"choices": []any{map[string]any{"delta": delta, "finish_reason": reason}}})
	_, _ = fmt.Fprintf(w, "data: %s\n\ndata: [DONE]\n\n", event)
}

// has reports whether the server was asked for the task so many times.
func (s *keyServer) has(task string, times int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(slices.DeleteFunc(slices.Clone(s.asked), func(a string) bool { return a != task })) >= times
}

// keyFamily are the processes of the tree below pid, itself included, with the parent of each.
func keyFamily(pid int) (all []int) {
	parents := map[int]int{}
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		id, err := strconv.Atoi(e.Name())
		stat, failed := os.ReadFile("/proc/" + e.Name() + "/stat")
		if err != nil || failed != nil {
			continue
		}
		fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
		parents[id], _ = strconv.Atoi(fields[1])
	}
	for id := range parents {
		for at := id; at > 1; at = parents[at] {
			if at == pid {
				all = append(all, id)
				break
			}
		}
	}
	return all
}

// keyMemory reports which of keys are in the memory of a process that it can write.
func keyMemory(t *testing.T, pid int, keys map[string]string) (found []string) {
	t.Helper()
	maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid))
	require.NoError(t, err)
	mem, err := os.Open(fmt.Sprintf("/proc/%d/mem", pid))
	require.NoError(t, err)
	defer mem.Close()
	for line := range strings.Lines(string(maps)) {
		var from, to int64
		var mode string
		if n, _ := fmt.Sscanf(line, "%x-%x %s", &from, &to, &mode); n != 3 || !strings.HasPrefix(mode, "rw") ||
			to-from > 1<<30 {
			continue
		}
		part := make([]byte, to-from)
		n, _ := mem.ReadAt(part, from) // what is not there has no key
		for name, key := range keys {
			if bytes.Contains(part[:n], []byte(key)) && !slices.Contains(found, name) {
				found = append(found, name)
			}
		}
	}
	slices.Sort(found)
	return found
}

// TestKeysStay: a child has the key of its own server and no other. No key is in an argument, in the environment of a
// child or of a command, in a file, an event, a trace, an error, or in what a command of qq prints.
func TestKeysStay(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root reads the memory of another process")
	}
	look := `{"command":"env; tr '\\0' '\\n' < /proc/self/environ; cat /proc/[0-9]*/environ | tr '\\0' '\\n';sleep .3"}`
	child := func(agent, task string) string { return fmt.Sprintf(`{"agent":%q,"task":%q}`, agent, task) }
	a := startKeyServer(t, "alpha", map[string][]string{
		"Here!": {look},
		"Lead": {child("here", "Here!"), child("there", "There!"), child("beyond", "Beyond!"),
			child("odd", "Odd")},
	})
	b := startKeyServer(t, "beta", map[string][]string{"There!": {look}})
	c := startKeyServer(t, "gamma", map[string][]string{"Beyond!": {look}})
	d := startKeyServer(t, "delta", nil)
	d.echoes = true
	all := []*keyServer{a, b, c, d}
	keys := map[string]string{}
	for _, s := range all {
		keys[s.name] = s.key
	}
	collector := endureCollect(t)
	w := newWorld(t, "127.0.0.1:1", "none", "QQ_MODEL=alpha:m", "QQ_APPROVE=auto", "QQ_RETRIES=0", "QQ_PLAN=off",
		"OTEL_EXPORTER_OTLP_ENDPOINT="+collector.url,
		"QQ_SERVER_alpha=openai "+a.url+" key=FIRST", "FIRST="+a.key, "COPY="+a.key) // names that say nothing
	config := filepath.Join(w.dir, "config", "qq")
	require.NoError(t, os.MkdirAll(filepath.Join(config, "agents"), 0o700))
	vault := filepath.Join(w.dir, "vault")
	require.NoError(t, os.WriteFile(vault, []byte(c.key+"\nlogin: me\n"), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(config, ".env"), []byte("SECOND="+b.key+"\nFOURTH="+d.key+
		"\nQQ_SERVER_beta='openai "+b.url+" key=SECOND'\nQQ_SERVER_delta='openai "+d.url+" key=FOURTH'\n"+
		"QQ_SERVER_gamma='openai "+c.url+" key_cmd=cat "+vault+"'\n"), 0o600))
	for name, server := range map[string]string{"here": "alpha", "there": "beta", "beyond": "gamma", "odd": "delta"} {
		agent := fmt.Sprintf("---\ndescription: looks\ntools: [run_pty_cmd]\nmodel: %s:m\n---\nYou look.\n", server)
		require.NoError(t, os.WriteFile(filepath.Join(config, "agents", name+".md"), []byte(agent), 0o600))
	}
	w.file(".env", "QQ_SERVER_far='openai http://127.0.0.1:1 key=FIRST'\nQQ_RETRIES=9\n"+
		"QQ_SERVER_slip='openai http://127.0.0.1:1 key="+d.key+"'\n") // a person made a mistake

	q := w.start("", "Lead", "--output-format", "stream-json")
	// While it is at work, all that others can see of its processes is looked at.
	seen, leaks := map[int]bool{}, map[string]bool{}
	root, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", q.cmd.Process.Pid))
	require.NoError(t, err)
	scan := func() {
		for _, pid := range keyFamily(q.cmd.Process.Pid) {
			args, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
			environ, _ := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
			switch {
			case bytes.Equal(args, root), bytes.Contains(environ, []byte("QQ_COMMAND_ID_KEY=")):
				// What a person exported is in the root, also in its copy that is about to become a child, and in a
				// key command.
				environ = nil
			default:
				seen[pid] = true
			}
			for name, key := range keys {
				if bytes.Contains(args, []byte(key)) || bytes.Contains(environ, []byte(key)) {
					leaks[fmt.Sprintf("%s: %q %q", name, args, environ)] = true
				}
			}
		}
	}
	f := w.face()
	f.ask(`{"v":1,"type":"subscribe","id":"7"}`)
	w.until(runTimeout, "all children wait for their answer", func() bool {
		scan()
		return a.has("Here!", 2) && b.has("There!", 2) && c.has("Beyond!", 2)
	})
	memory := map[string]int{}
	for _, pid := range w.processes() {
		if pid != q.cmd.Process.Pid {
			memory[strings.Join(keyMemory(t, pid, keys), " ")]++
		}
	}
	delete(memory, "") // helpers
	assert.Equal(t, map[string]int{"alpha": 1, "beta": 1, "gamma": 1}, memory, "each child has the key of its server")
	scan()
	for _, s := range all {
		close(s.held)
	}
	var told strings.Builder
	for {
		line, err := f.lines.ReadString('\n')
		told.WriteString(line)
		if err != nil || strings.Contains(line, `"type":"end"`) {
			break
		}
	}
	e := q.wait()
	assert.Equal(t, 0, e.code, e.stderr)
	assert.Empty(t, leaks)
	assert.Greater(t, len(seen), 6, "children and their commands were looked at")
	for _, s := range all {
		assert.Empty(t, s.foreign, "%s gets its own key", s.name)
		assert.True(t, s.echoes || len(s.asked) > 1, s.name)
	}
	assert.Contains(t, e.stdout, "these headers are odd", "an error tells what the server said")
	assert.Contains(t, e.stdout, "(the key)")
	assert.Contains(t, told.String(), "sub_agent_complete")
	assert.NotEmpty(t, collector.spans)

	texts := map[string]string{"stdout": e.stdout, "stderr": e.stderr, "socket": told.String()}
	spans, err := json.Marshal(collector.spans)
	require.NoError(t, err)
	texts["traces"] = string(spans)
	for _, args := range [][]string{{"config"}, {"config", "--json"}, {"doctor"}, {"doctor", "--json"}, {"trust"},
		{"runs"}, {"runs", "show", "--log"}, {"runs", "tree", "--json"}, {"agents"}, {"Lead", "--dry-run"},
		{"Odd", "--model", "delta:m"}, {"Odd", "--model", "delta:m", "--json"}, {"Lead", "--model", "delta:" + d.key},
		{"models", "list"}, {"models", "list", "--json"}, {"models", "show", "beta:m"}, {"models", "test", "delta:m"},
		{"models", "test", "gamma:m", "--json"}, {"permissions"}, {"batch", "--model", "delta:m", "--no-bar", w.file("tasks.txt", "Odd\n")}} {
		e := w.qq(args...)
		texts[fmt.Sprint(args)] = e.stdout + e.stderr
	}
	assert.Contains(t, texts["[config]"], "key=SECOND")
	assert.Contains(t, texts["[models list]"], "gamma:m")
	assert.Contains(t, texts["[config]"], "key_cmd=…")
	assert.Contains(t, texts["[Odd --model delta:m]"], "these headers are odd")
	assert.Contains(t, texts["[trust]"], ".env: QQ_SERVER_slip=openai http://127.0.0.1:1 key=(hidden) (sends")
	mine := []string{filepath.Join(config, ".env"), filepath.Join(w.work, ".env"), vault}
	require.NoError(t, filepath.WalkDir(w.dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() && !slices.Contains(mine, path) {
			text, err := os.ReadFile(path)
			require.NoError(t, err)
			texts[path] = string(text)
		}
		return nil
	}))
	assert.Greater(t, len(texts), 25, "ledger, transcripts and logs are among them")
	delete(texts, "[Lead --model delta:"+d.key+"]") // a person typed it
	for from, text := range texts {
		for name, key := range keys {
			if i := strings.Index(text, key); i >= 0 {
				assert.Fail(t, "a key is shown", "%s in %s: %.200q", name, from, text[max(0, i-100):])
			}
		}
	}
}
