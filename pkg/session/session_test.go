package session

import (
	"encoding/json"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qq/pkg/llm"
	"qq/pkg/task"
	"qq/pkg/tool"
)

func user(s string) llm.Message   { return llm.Message{Role: llm.User, Content: s} }
func answer(s string) llm.Message { return llm.Message{Role: llm.Assistant, Content: s} }

// newStore returns a store whose clock stands at a time long ago.
func newStore(t *testing.T) *Store {
	st := Open(filepath.Join(t.TempDir(), "home", "sessions"))
	st.now = func() time.Time { return time.Date(2026, 11, 20, 15, 30, 12, 0, time.UTC) }
	return st
}

// create makes a closed session of a directory with these messages.
func create(t *testing.T, st *Store, dir string, messages ...llm.Message) string {
	t.Helper()
	s, err := st.Create(Header{Agent: "coder", Model: "extract", Dir: dir})
	require.NoError(t, err)
	require.NoError(t, add(s, messages...))
	require.NoError(t, s.Close())
	return s.ID()
}

// add adds messages until one cannot be added.
func add(s *Session, messages ...llm.Message) error {
	for _, m := range messages {
		if err := s.Add(llm.Entry{Message: m}); err != nil {
			return err
		}
	}
	return nil
}

func raw(t *testing.T, st *Store, id string) string {
	t.Helper()
	data, err := os.ReadFile(st.path(id))
	require.NoError(t, err)
	return string(data)
}

func TestRoundTrip(t *testing.T) {
	st := newStore(t)
	said := []llm.Message{
		user("read <a> & b\nplease"),
		{Role: llm.Assistant, Thinking: "hm", Calls: []tool.Call{{ID: "1", Name: "read_file",
			Arguments: json.RawMessage(`{"path":"a"}`)}}},
		{Role: llm.ToolRole, CallID: "1", Tool: "read_file", Content: "\x00\u2028 text"},
	}
	s, err := st.Create(Header{Agent: "coder", Model: "ollama:m", Dir: "/w", V: 9, ID: "ignored"})
	require.NoError(t, err)
	assert.Regexp(t, `^20261120-153012-[0-9a-f]{4}$`, s.ID())
	require.NoError(t, add(s, said...))
	require.NoError(t, s.Add(llm.Entry{Message: answer("done"), Usage: task.Usage{InputTokens: 3, OutputTokens: 4}}))

	got, err := st.Load(s.ID())
	require.NoError(t, err, "a session in use can be read")
	assert.Equal(t, Header{V: 1, ID: s.ID(), Agent: "coder", Model: "ollama:m", Dir: "/w", Created: st.now()},
		got.Header)
	assert.Equal(t, append(said, answer("done")), got.Messages())
	assert.Equal(t, task.Usage{InputTokens: 3, OutputTokens: 4}, got.Entries[3].Usage)
	assert.Zero(t, got.Entries[0].Usage)
	assert.Equal(t, st.now(), got.Entries[0].Time)
	assert.Empty(t, got.Damaged)
	require.NoError(t, s.Close())

	assert.Equal(t, 5, strings.Count(raw(t, st, s.ID()), "\n"))
	for path, mode := range map[string]fs.FileMode{st.dir: 0o700 | fs.ModeDir, st.path(s.ID()): 0o600} {
		info, err := os.Stat(path)
		require.NoError(t, err)
		assert.Equal(t, mode, info.Mode(), path)
	}
}

func TestContinue(t *testing.T) {
	st := newStore(t)
	id := create(t, st, "/w", user("one"))
	s, sofar, err := st.Continue(id[:10])
	require.NoError(t, err)
	assert.Equal(t, id, s.ID())
	assert.Equal(t, []llm.Message{user("one")}, sofar.Messages())
	require.NoError(t, add(s, answer("two")))
	require.NoError(t, s.Close())
	got, err := st.Load(id)
	require.NoError(t, err)
	assert.Equal(t, []llm.Message{user("one"), answer("two")}, got.Messages())
}

// What a crash leaves of the last line is not part of the transcript, and
// nothing is glued to it.
func TestTornLastLine(t *testing.T) {
	tests := []struct {
		name, tail string
		kept       int
	}{
		{"cut off", `{"time":"2026-11-20T15:30:12Z","role":"user","con`, 1},
		{"only its newline is missing", `{"role":"user","content":"two"}`, 2},
		{"zeroes", "\x00\x00\x00", 1},
		{"too long", strings.Repeat("x", maxLine+1), 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			st := newStore(t)
			id := create(t, st, "/w", user("one"))
			whole := raw(t, st, id)
			require.NoError(t, os.WriteFile(st.path(id), []byte(whole+tt.tail), 0o600))

			got, err := st.Load(id)
			require.NoError(t, err)
			assert.Len(t, got.Entries, tt.kept)
			assert.Empty(t, got.Damaged)
			list, err := st.List()
			require.NoError(t, err)
			assert.Equal(t, tt.kept, list[0].Messages)
			assert.Equal(t, whole+tt.tail, raw(t, st, id), "reading changes nothing")

			s, _, err := st.Continue(id)
			require.NoError(t, err)
			require.NoError(t, add(s, answer("last")))
			require.NoError(t, s.Close())
			got, err = st.Load(id)
			require.NoError(t, err)
			assert.Len(t, got.Entries, tt.kept+1)
			assert.Equal(t, answer("last"), got.Entries[tt.kept].Message)
			assert.Empty(t, got.Damaged)
		})
	}
}

func TestDamagedLines(t *testing.T) {
	st := newStore(t)
	id := create(t, st, "/w", user("one"))
	lines := []string{"nonsense", "", `{"role":"emperor"}`, "null", strings.Repeat("x", maxLine),
		`{"role":"user","content":"two"}`}
	whole := raw(t, st, id) + strings.Join(lines, "\n") + "\n"
	require.NoError(t, os.WriteFile(st.path(id), []byte(whole), 0o600))
	got, err := st.Load(id)
	require.NoError(t, err)
	assert.Equal(t, []llm.Message{user("one"), user("two")}, got.Messages())
	const why = "the transcript is damaged: "
	assert.Equal(t, []string{why + "line 3 is no JSON of a transcript", why + "line 4 is no JSON of a transcript",
		why + "line 5 is no message", why + "2 more lines"}, got.Damaged, "bad lines have a bound")

	require.NoError(t, os.WriteFile(st.path(id), []byte("bad\n"+`{"role":"user","content":"two"}`+"\n"), 0o600))
	got, err = st.Load(id)
	require.NoError(t, err)
	assert.Equal(t, []llm.Message{user("two")}, got.Messages())
	assert.Equal(t, id, got.Header.ID, "the id is that of the file")
	assert.Len(t, got.Damaged, 1)

	require.NoError(t, os.WriteFile(st.path(id), []byte(`{"v":2}`+"\n"), 0o600))
	_, err = st.Load(id)
	require.ErrorContains(t, err, "newer qq")

	require.NoError(t, os.WriteFile(st.path(id), []byte(`{"v":1,`), 0o600))
	_, _, err = st.Continue(id)
	require.ErrorIs(t, err, ErrNotFound, "nothing is left to continue")
}

func TestInUse(t *testing.T) {
	st := newStore(t)
	s, err := st.Create(Header{})
	require.NoError(t, err)
	require.NoError(t, add(s, user("one")))
	_, _, err = st.Continue(s.ID())
	require.ErrorIs(t, err, ErrInUse)
	assert.Contains(t, err.Error(), "session "+s.ID()+" is in use by another qq\nhint: ")
	require.ErrorIs(t, st.Remove(s.ID()), ErrInUse)
	require.NoError(t, s.Close())

	next, _, err := st.Continue(s.ID())
	require.NoError(t, err)
	require.NoError(t, next.Close())
	require.NoError(t, st.Remove(s.ID()))
	_, err = st.Load(s.ID())
	require.ErrorIs(t, err, ErrNotFound)
}

// TestInUseByProcess holds a session in another process, which ends without
// closing it.
func TestInUseByProcess(t *testing.T) {
	if dir := os.Getenv("SESSION_TEST_HOLD"); dir != "" {
		_, _, err := Open(dir).Continue(os.Getenv("SESSION_TEST_ID"))
		require.NoError(t, err)
		_, _ = os.Stdout.WriteString("held\n")
		_, _ = os.Stdin.Read(make([]byte, 1))
		os.Exit(0)
	}
	st := newStore(t)
	id := create(t, st, "/w", user("one"))
	cmd := exec.Command(os.Args[0], "-test.run=^TestInUseByProcess$")
	cmd.Env = append(os.Environ(), "SESSION_TEST_HOLD="+st.dir, "SESSION_TEST_ID="+id)
	stdin, err := cmd.StdinPipe()
	require.NoError(t, err)
	stdout, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	said := make([]byte, 5)
	_, err = stdout.Read(said)
	require.NoError(t, err)
	require.Equal(t, "held\n", string(said))
	_, _, err = st.Continue(id)
	require.ErrorIs(t, err, ErrInUse)
	require.NoError(t, stdin.Close())
	require.NoError(t, cmd.Wait())
	s, _, err := st.Continue(id)
	require.NoError(t, err, "a process that ended holds nothing")
	require.NoError(t, s.Close())
}

// A session that was removed between open and lock would swallow what is
// appended to it.
func TestRemovedBeforeLock(t *testing.T) {
	st := newStore(t)
	id := create(t, st, "/w", user("one"))
	f, err := st.open(id, os.O_RDWR)
	require.NoError(t, err)
	defer f.Close()
	require.NoError(t, st.Remove(id))
	require.ErrorIs(t, lock(f), ErrNotFound)
}

// A write that the system cuts short, as on a full disk, leaves whole lines.
func TestFullDisk(t *testing.T) {
	st := newStore(t)
	s, err := st.Create(Header{})
	require.NoError(t, err)
	require.NoError(t, add(s, user("one")))
	before := raw(t, st, s.ID())

	signal.Ignore(syscall.SIGXFSZ)
	defer signal.Reset(syscall.SIGXFSZ)
	var limit syscall.Rlimit
	require.NoError(t, syscall.Getrlimit(syscall.RLIMIT_FSIZE, &limit))
	small := limit
	small.Cur = 4096
	require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_FSIZE, &small))
	err = add(s, user(strings.Repeat("x", 8192)))
	during := raw(t, st, s.ID())
	require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit))

	require.ErrorIs(t, err, syscall.EFBIG)
	require.ErrorContains(t, err, "append to session "+s.ID())
	assert.Equal(t, before, during)
	require.NoError(t, add(s, answer("two")))
	require.NoError(t, s.Close())
	got, err := st.Load(s.ID())
	require.NoError(t, err)
	assert.Equal(t, []llm.Message{user("one"), answer("two")}, got.Messages())
	assert.Empty(t, got.Damaged)
}

func TestTornWriteIsCutOffLater(t *testing.T) {
	st := newStore(t)
	s, err := st.Create(Header{})
	require.NoError(t, err)
	require.NoError(t, add(s, user("one")))
	_, err = s.file.WriteString(`{"role":"us`)
	require.NoError(t, err)
	s.torn = true // what Add notes when it cannot mend the file at once
	require.NoError(t, add(s, answer("two")))
	require.NoError(t, s.Close())
	got, err := st.Load(s.ID())
	require.NoError(t, err)
	assert.Equal(t, []llm.Message{user("one"), answer("two")}, got.Messages())
	assert.Empty(t, got.Damaged)
}

func TestAddRefuses(t *testing.T) {
	st := newStore(t)
	s, err := st.Create(Header{})
	require.NoError(t, err)
	many := llm.Message{Role: llm.Assistant, Calls: make([]tool.Call, 800_000)}
	require.ErrorContains(t, add(s, many), "800000 calls, at most 524288", "a message that cannot be shortened")
	bad := llm.Message{Role: llm.Assistant, Calls: []tool.Call{{Arguments: json.RawMessage("{")}}}
	require.Error(t, add(s, bad))
	require.NoError(t, s.Close())
	_, err = st.Load(s.ID())
	require.ErrorIs(t, err, ErrNotFound, "a session without a message is not kept")
}

// A message that is too long for a line is kept, with a note for what is left out.
func TestLongMessage(t *testing.T) {
	long := "begin" + strings.Repeat("é", 10<<20) + "end"
	dense := "begin" + strings.Repeat("\x01", 10<<20) + "end" // six bytes each in JSON
	arguments := json.RawMessage(`{"content":"` + strings.Repeat("x", 20<<20) + `"}`)
	st := newStore(t)
	s, err := st.Create(Header{})
	require.NoError(t, err)
	require.NoError(t, add(s, user(llm.WithContext("Summarize it", long)), user(dense)))
	require.NoError(t, add(s, llm.Message{
		Role: llm.Assistant, Thinking: long, Calls: []tool.Call{{ID: "1", Name: "write", Arguments: arguments}},
	}, user(strings.Repeat("y", maxLine-200))))
	require.NoError(t, s.Close())
	got, err := st.Load(s.ID())
	require.NoError(t, err)
	require.Empty(t, got.Damaged)
	m := got.Messages()
	require.Len(t, m, 4)
	text, context := llm.SplitContext(m[0].Content)
	assert.Equal(t, "Summarize it", text)
	for _, shortened := range []string{context, m[1].Content, m[2].Thinking} {
		assert.True(t, strings.HasPrefix(shortened, "begin") && strings.HasSuffix(shortened, "end"))
		assert.Regexp(t, `\n\[[0-9]+ bytes left out: too long for the transcript\]\n`, shortened)
		assert.NotContains(t, shortened, "\ufffd")
		assert.Greater(t, len(shortened), 1<<20)
	}
	assert.JSONEq(t, `{"left_out":"20971534 bytes of arguments: too long for the transcript"}`,
		string(m[2].Calls[0].Arguments))
	assert.NotContains(t, m[3].Content, "left out", "it fits")
	list, err := st.List()
	require.NoError(t, err)
	assert.Equal(t, "Summarize it", list[0].Title)
}

func TestIDs(t *testing.T) {
	st := newStore(t)
	var ids []string
	for range 3 {
		ids = append(ids, create(t, st, "/w", user("x")))
	}
	outside := filepath.Join(filepath.Dir(st.dir), "outside.jsonl")
	require.NoError(t, os.WriteFile(outside, []byte(`{"v":1}`+"\n"), 0o600))
	require.NoError(t, os.Symlink(outside, st.path("link")))
	require.NoError(t, syscall.Mkfifo(st.path("pipe"), 0o600))

	_, err := st.Load("2026")
	require.ErrorContains(t, err, "session 2026 is several\nhint: write more of the id: ")
	for _, id := range ids {
		assert.Contains(t, err.Error(), id)
	}
	for _, id := range []string{"", ".", "..", "../outside", "/etc/passwd", "a/b", "2026*", "-x", "2026.jsonl", "\x00",
		strings.Repeat("2", 65), "3"} {
		_, err := st.Load(id)
		require.ErrorIs(t, err, ErrNotFound, id)
		require.ErrorIs(t, st.Remove(id), ErrNotFound, id)
	}
	for _, id := range []string{"link", "pipe"} {
		_, err := st.Load(id)
		require.Error(t, err, id)
		require.Error(t, st.Remove(id), id)
	}
	assert.FileExists(t, outside)
}

func TestListAndLatest(t *testing.T) {
	st := newStore(t)
	list, err := st.List()
	require.NoError(t, err, "a folder that is not there has no sessions")
	assert.Empty(t, list)
	_, err = st.Latest("/w")
	require.ErrorIs(t, err, ErrNotFound)

	old := create(t, st, "/w", user(llm.WithContext("  summarize\nthis "+strings.Repeat("x", 99), "long text")),
		answer("ok"))
	recent := create(t, st, "/w", answer("hello"), user("hi"), answer("yes"), user("bye"))
	other := create(t, st, "/elsewhere", user("there"))
	broken := create(t, st, "/w", user("there"))
	require.NoError(t, os.WriteFile(st.path(broken), []byte("bad\n"+`{"role":"user"}`+"\n"+`{"torn`), 0o600))
	for i, id := range []string{old, recent, other, broken} {
		at := st.now().Add(time.Duration(i) * time.Hour)
		require.NoError(t, os.Chtimes(st.path(id), at, at))
	}

	list, err = st.List()
	require.NoError(t, err)
	require.Len(t, list, 4)
	assert.Equal(t, Summary{Header: Header{ID: broken}, Title: "(no text)", Messages: 1, Modified: list[0].Modified,
		Damaged: true}, list[0])
	assert.Equal(t, []string{broken, other, recent, old}, []string{list[0].ID, list[1].ID, list[2].ID, list[3].ID})
	assert.Equal(t, "hi", list[2].Title)
	assert.Equal(t, 4, list[2].Messages)
	assert.Equal(t, "coder", list[2].Agent)
	assert.Equal(t, "summarize this "+strings.Repeat("x", 62)+"...", list[3].Title)
	assert.True(t, list[3].Modified.Equal(st.now()))

	latest, err := st.Latest("/w")
	require.NoError(t, err)
	assert.Equal(t, recent, latest)
}

func TestPrune(t *testing.T) {
	st := newStore(t)
	old, used, fresh := create(t, st, "/w", user("a")), create(t, st, "/w", user("b")), create(t, st, "/w", user("c"))
	for id, age := range map[string]time.Duration{old: 48 * time.Hour, used: 48 * time.Hour, fresh: time.Hour} {
		at := st.now().Add(-age)
		require.NoError(t, os.Chtimes(st.path(id), at, at))
	}
	s, _, err := st.Continue(used)
	require.NoError(t, err)
	at := st.now().Add(-48 * time.Hour)
	require.NoError(t, os.Chtimes(st.path(used), at, at))
	removed, err := st.Prune(24 * time.Hour)
	require.NoError(t, err)
	assert.Equal(t, []string{old}, removed)
	require.NoError(t, s.Close())

	require.ErrorIs(t, st.remove(fresh, st.now().Add(-2*time.Hour)), ErrInUse, "appended to since it was listed")
	ids, err := st.ids()
	require.NoError(t, err)
	assert.ElementsMatch(t, []string{used, fresh}, ids)
}

// FuzzLoad: whatever a file holds, reading it ends, and what is appended after
// a repair is read again after all that was read before.
func FuzzLoad(f *testing.F) {
	for _, s := range []string{"", "\n", "{", `{"v":1}` + "\n", `{"v":1}` + "\n" + `{"role":"user","content":"x"}`,
		`{"v":1}` + "\nbad\n" + `{"role":"tool","calls":[{"arguments":null}]}` + "\n{", "\x00\xff\n\n{}"} {
		f.Add([]byte(s))
	}
	st := Open(f.TempDir())
	f.Fuzz(func(t *testing.T, data []byte) {
		require.NoError(t, os.WriteFile(st.path("x"), data, 0o600))
		before, err := st.Load("x")
		if err != nil {
			return
		}
		s, again, err := st.Continue("x")
		if err != nil {
			require.Zero(t, before.end)
			return
		}
		require.Equal(t, before, again)
		require.NoError(t, add(s, answer("last")))
		require.NoError(t, s.Close())
		after, err := st.Load("x")
		require.NoError(t, err)
		assert.Equal(t, before.Damaged, after.Damaged)
		require.NotEmpty(t, after.Entries)
		last := after.Entries[len(after.Entries)-1]
		assert.Equal(t, answer("last"), last.Message)
		assert.Equal(t, append(before.Entries, last), after.Entries)
		_, err = st.List()
		require.NoError(t, err)
	})
}

// TestNoHead: of a transcript without its beginning nobody must think that the agent said nothing. Lines that are no
// messages are not counted as such.
func TestNoHead(t *testing.T) {
	const header, message = `{"v":1,"id":"1"}` + "\n", `{"role":"user","content":"hi"}` + "\n"
	for name, of := range map[string]struct {
		text, damaged string
		messages      int
	}{
		"empty":     {"", "it is empty", 0},
		"part":      {header[:9], "only a part of its first line is there", 0},
		"no header": {message, "line 1 is not the first line of a transcript", 0},
		"garbage":   {header + message + "\x00\x01\n" + `{"x":1}` + "\n" + message, "line 3 is no JSON of a transcript", 2},
	} {
		t.Run(name, func(t *testing.T) {
			st := Open(t.TempDir())
			require.NoError(t, os.WriteFile(st.path("1"), []byte(of.text), 0o600))
			got, err := st.Load("1")
			require.NoError(t, err)
			require.NotEmpty(t, got.Damaged)
			assert.Equal(t, "the transcript is damaged: "+of.damaged, got.Damaged[0])
			assert.Len(t, got.Entries, of.messages)
			list, err := st.List()
			require.NoError(t, err)
			assert.Equal(t, of.messages, list[0].Messages)
		})
	}
}
