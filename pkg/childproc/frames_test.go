package childproc

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"qq/pkg/agents"
	"qq/pkg/event"
	"qq/pkg/llm"
	"qq/pkg/task"
)

// allFrames is one frame of each type, with all that it can hold.
func allFrames() []Frame {
	problem, code := "no\nsuch \"file\"", 3
	res := task.Result{Task: "do", Agent: "coder", Output: "half", Error: &problem, Status: task.Broken, ExitCode: 3,
		Index: 1}
	return []Frame{
		{Type: TypeStart, Start: &Start{
			Protocol: Version, ExecutionID: "e", Parent: "p", BatchID: "b", Depth: 2, Denied: []string{"web_fetch"},
			Agent: agents.Agent{Name: "coder", Tools: []string{}, Agents: []string{"explorer"}, Role: agents.Modifying,
				Prompt: "be\ngood"},
			Permit: true, IdleMS: 300_000,
			ReadOnly: true, Schema: json.RawMessage(`{"type":"object"}`), Setup: json.RawMessage(`{"name":"x"}`),
		}},
		{Type: TypeAnswer, Answer: &Answer{ID: 7, Result: &res}},
		{Type: TypeAnswer, Answer: &Answer{ID: 7, Last: true}},
		{Type: TypeCancel, Cancel: &Cancel{Reason: "enough"}},
		{Type: TypeHello, Hello: &Hello{Protocol: Version, Version: "1.2"}},
		{Type: TypeEvent, Event: &event.Event{V: 1, Seq: 9, TS: time.Unix(1, 5).UTC(), Type: event.ToolEnd,
			Tool: "grep_file", Failed: true, ExitCode: &code}},
		{Type: TypeAsk, Ask: &Ask{ID: 7, Delegate: []task.Task{{Text: "a", Agent: "coder", Timeout: 1.5},
			{Text: "b\u2028c</context>"}}}},
		{Type: TypeMessage, Message: &Message{Text: "read this"}},
		{Type: TypeCancel, Cancel: &Cancel{Reason: "late", GraceMS: 5000}},
		{Type: TypeAsk, Ask: &Ask{ID: 8, Enter: &Enter{Model: "m"}}},
		{Type: TypeAnswer, Answer: &Answer{ID: 8, Fault: &Fault{Kind: llm.Open, Problem: "p", Hint: "h"}, Last: true}},
		{Type: TypeChanged, Changed: &Changed{Paths: []string{"a", "b"}}},
		{Type: TypeActive, Active: &Active{}},
		{Type: TypeActive, Active: &Active{Permits: []int64{0, 8}}},
		{Type: TypeActive, Active: &Active{Permits: []int64{8}, Allowed: &llm.Allowance{
			Requests: llm.Meter{Limit: 60, Left: 59, Reset: time.Second}, Tokens: llm.Meter{Reset: 1}}}},
		{Type: TypeLeave, Leave: &Leave{}},
		{
			Type: TypeLeave,
			Leave: &Leave{ID: 8, Report: llm.Report{Kind: llm.Busy, Cancelled: true, RetryAfter: time.Second,
				Usage: task.Usage{InputTokens: 1}, Timing: llm.Timing{Queued: 1, Served: 2}}},
		},
		{Type: TypeAsk, Ask: &Ask{ID: 9, Effects: true}},
		{Type: TypeResult, Result: &Result{Status: task.Completed, Reads: readList{}}},
		{Type: TypeResult, Result: &Result{Status: task.Completed, Repeats: 2,
			Reads: readList{
				{Tool: "read_file", Arguments: json.RawMessage(`{"path":"a"}`), Digest: strings.Repeat("0f", 32)},
			}}},
		{Type: TypeResult, Result: &Result{Status: task.Completed, Usage: task.Usage{InputTokens: 1, OutputTokens: 2},
			Bytes: 1 << 40, ChangedFiles: []string{"a"}, Structured: json.RawMessage(`[1]`), Warnings: []string{"w"},
			Did: &task.Did{Calls: map[string]int{"a": 1}, Commands: []task.Command{{Line: "b", ExitCode: 1}}}}},
	}
}

func TestFramesRoundTrip(t *testing.T) {
	var wire bytes.Buffer
	seen := map[Type]bool{}
	for _, f := range allFrames() {
		line, err := encode(f)
		require.NoError(t, err)
		require.Equal(t, 1, bytes.Count(line, []byte("\n")), "a frame is one line")
		wire.Write(line)
		seen[f.Type] = true
	}
	assert.Len(t, seen, 11)
	r := newReader(iotest.OneByteReader(&wire), MaxUp)
	for _, want := range allFrames() {
		got, err := r.next()
		require.NoError(t, err)
		assert.Equal(t, want, got)
	}
	_, err := r.next()
	assert.Equal(t, io.EOF, err)
}

// A report loses nothing on its way, whatever it will consist of one day.
func TestLeaveRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := rapid.Make[Leave]().Draw(t, "leave")
		line, err := encode(Frame{Type: TypeLeave, Leave: &want})
		require.NoError(t, err)
		got, err := newReader(bytes.NewReader(line), MaxUp).next()
		require.NoError(t, err)
		assert.Equal(t, want, *got.Leave)
	})
}

// padded is a frame of a type of the future that is n bytes long with its
// newline.
func padded(t *testing.T, n int) string {
	const head, tail = `{"type":"x","pad":"`, "\"}\n"
	require.GreaterOrEqual(t, n, len(head)+len(tail))
	return head + strings.Repeat("a", n-len(head)-len(tail)) + tail
}

// A frame is too long from the first byte over the limit on, whether it fits
// into the buffer or not.
func TestFrameLimit(t *testing.T) {
	for _, limit := range []int{64, 4095, 4096, 4097, 8192, 10_000} {
		for over := -1; over <= 1; over++ {
			r := newReader(strings.NewReader(padded(t, limit+over)+`{"type":"y"}`+"\n"), limit)
			f, err := r.next()
			if over > 0 {
				require.ErrorIs(t, err, ErrFrameTooLong)
				require.EqualError(t, err, fmt.Sprintf("frame too long: over %d bytes", limit))
				continue
			}
			require.NoError(t, err, "%d of %d", limit+over, limit)
			assert.Equal(t, Type("x"), f.Type)
			f, err = r.next()
			require.NoError(t, err)
			assert.Equal(t, Type("y"), f.Type)
		}
	}
}

// A last line without a newline was cut off, however whole it looks.
func TestTornFrame(t *testing.T) {
	for _, torn := range []string{`{"type":"hello","hel`, `{"type":"cancel","cancel":{}}`,
		strings.TrimSuffix(padded(t, 9000), "\n"), ""} {
		r := newReader(strings.NewReader("{\"type\":\"x\"}\n"+torn), 10_000)
		_, err := r.next()
		require.NoError(t, err)
		for range 2 {
			_, err = r.next()
			assert.Equal(t, io.EOF, err)
		}
	}
	_, err := newReader(strings.NewReader(strings.Repeat("a", 101)), 100).next()
	assert.ErrorIs(t, err, ErrFrameTooLong, "it is too long already")
	_, err = newReader(iotest.ErrReader(errors.New("deadline")), 100).next()
	assert.Equal(t, io.EOF, err, "a pipe that cannot be read has ended")
}

func TestNewerFrames(t *testing.T) {
	const wire = `{"type":"telepathy","telepathy":{"x":[1,2]}}` + "\n" +
		`{"future":[{}],"type":"cancel","cancel":{"reason":"r","colour":"blue"},"hello":{"protocol":99}}` + "\r\n" +
		` {"cancel":{}, "type":"cancel"} ` + "\n"
	r := newReader(strings.NewReader(wire), MaxUp)
	f, err := r.next()
	require.NoError(t, err)
	assert.Equal(t, Frame{Type: "telepathy"}, f)
	f, err = r.next()
	require.NoError(t, err)
	assert.Equal(t, &Cancel{Reason: "r"}, f.Cancel)
	f, err = r.next()
	require.NoError(t, err)
	assert.Equal(t, &Cancel{}, f.Cancel)
}

func TestBrokenFrames(t *testing.T) {
	lines := []string{
		"", " ", "x", "null", "[]", `""`, "1", "{}", `{"type":""}`, `{"type":null}`, `{"type":1}`, `{"type":"hello"`,
		`{"type":"x"} {}`,
		"{\"type\":\"x\x00\"}", `{"type":"result","result":{"status":"running"}}`,
		`{"type":"result","result":{"status":"splendid"}}`,
		`{"type":"result","result":{}}`, `{"type":"ask","ask":{"id":"1"}}`, `{"type":"ask","ask":{"delegate":{}}}`,
		`{"type":"ask","ask":{"delegate":[1]}}`, `{"type":"ask","ask":{"enter":"m"}}`,
		`{"type":"leave","leave":{"report":{"retry_after":1e30}}}`,
		`{"type":"active","active":{"permits":["1"]}}`, `{"type":"result","result":{"status":"completed","reads":{}}}`,
		`{"type":"event","event":{"ts":"yesterday"}}`, strings.Repeat(`{"type":`, 20_000),
	}
	for _, of := range []Type{TypeStart, TypeAnswer, TypeMessage, TypeCancel, TypeHello,
		TypeEvent, TypeAsk, TypeChanged,
		TypeActive, TypeLeave, TypeResult} {
		lines = append(lines, fmt.Sprintf(`{"type":%q}`, of), fmt.Sprintf(`{"type":%q,%[1]q:null}`, of),
			fmt.Sprintf(`{"type":%q,%[1]q:[]}`, of))
	}
	for _, line := range lines {
		_, err := newReader(strings.NewReader(line+"\n"), MaxUp).next()
		assert.ErrorIs(t, err, ErrFrameBroken, "%.80q", line)
	}
}

// One ask holds so many tasks; more of them, in a frame of legal length, cost
// next to nothing.
func TestTasksOfAnAsk(t *testing.T) {
	ask := func(n int) string {
		return `{"type":"ask","ask":{"id":1,"delegate":[` + strings.TrimSuffix(strings.Repeat("{},", n), ",") + "]}}\n"
	}
	f, err := newReader(strings.NewReader(ask(MaxAsk)), MaxUp).next()
	require.NoError(t, err)
	assert.Len(t, f.Ask.Delegate, MaxAsk)

	line := ask((MaxUp - 100) / 3)
	allocated := allocates(func() { _, err = newReader(strings.NewReader(line), MaxUp).next() })
	require.ErrorIs(t, err, ErrFrameBroken)
	require.ErrorContains(t, err, "over 1000 tasks")
	assert.Less(t, allocated, uint64(48<<20), "a quarter of a gigabyte, if they were all read")

	f, err = newReader(strings.NewReader(`{"type":"ask","ask":{"id":1,"delegate":null}}`+"\n"), MaxUp).next()
	require.NoError(t, err)
	assert.Empty(t, f.Ask.Delegate)
}

// It is the same with reads, of which a list that is there and empty is not none.
func TestReadsOfAResult(t *testing.T) {
	result := func(reads string) string {
		return `{"type":"result","result":{"status":"completed"` + reads + "}}\n"
	}
	many := func(n int) string { return `,"reads":[` + strings.TrimSuffix(strings.Repeat("{},", n), ",") + "]" }
	read := func(line string) (Frame, error) { return newReader(strings.NewReader(line), MaxUp).next() }
	f, err := read(result(many(maxReads)))
	require.NoError(t, err)
	assert.Len(t, f.Result.Reads, maxReads)

	line := result(many((MaxUp - 100) / 3))
	allocated := allocates(func() { _, err = read(line) })
	require.ErrorIs(t, err, ErrFrameBroken)
	require.ErrorContains(t, err, "over 10000 reads")
	assert.Less(t, allocated, uint64(48<<20))

	for reads, want := range map[string]readList{"": nil, `,"reads":null`: nil, `,"reads":[]`: {}} {
		f, err := read(result(reads))
		require.NoError(t, err)
		assert.Equal(t, want, f.Result.Reads, reads)
	}
}

// What a child says that it did is read only if it is short.
func TestDidOfAResult(t *testing.T) {
	line := `{"type":"result","result":{"status":"completed","did":{"commands":[` +
		strings.TrimSuffix(strings.Repeat("{},", (MaxUp-200)/3), ",") + "]}}}\n"
	var err error
	allocated := allocates(func() { _, err = newReader(strings.NewReader(line), MaxUp).next() })
	require.ErrorIs(t, err, ErrFrameBroken)
	assert.Less(t, allocated, uint64(48<<20))
}

// allocates is how many bytes do allocates.
func allocates(do func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	do()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

var aaa = strings.Repeat("a", 128)

// stream makes a line of n bytes without holding it.
type stream struct {
	head string
	n    int // bytes of padding that are left; below 0 is no end
	tail string
	read int
}

func (s *stream) Read(b []byte) (int, error) {
	n := 0
	switch {
	case s.head != "":
		n = copy(b, s.head)
		s.head = s.head[n:]
	case s.n != 0:
		if n = len(b); s.n > 0 {
			n = min(n, s.n)
			s.n -= n
		}
		for at := 0; at < n; {
			at += copy(b[at:n], aaa)
		}
	case s.tail != "":
		n = copy(b, s.tail)
		s.tail = s.tail[n:]
	default:
		return 0, io.EOF
	}
	s.read += n
	return n, nil
}

// A line without an end is given up at the limit: neither read on nor kept.
func TestEndlessFrame(t *testing.T) {
	const limit = 1 << 20
	s := &stream{n: -1}
	var err error
	allocated := allocates(func() { _, err = newReader(s, limit).next() })
	require.ErrorIs(t, err, ErrFrameTooLong)
	assert.LessOrEqual(t, s.read, limit+3*4096)
	assert.Less(t, allocated, uint64(8*limit), "growing a buffer costs a few times its size, once")
}

// What the root says may be very long. It is read in linear time: what is
// allocated on the way is what is copied.
func TestHugeDownFrame(t *testing.T) {
	frame := func(size int) io.Reader { return &stream{head: `{"type":"x","pad":"`, n: size, tail: "\"}\n"} }
	const size = 250 << 20
	r := newReader(frame(size), MaxDown)
	var line []byte
	var err error
	allocated := allocates(func() { line, err = r.line() })
	require.NoError(t, err)
	assert.Greater(t, len(line), size)
	assert.Less(t, allocated, uint64(8*size))

	f, err := newReader(frame(8<<20), MaxDown).next()
	require.NoError(t, err)
	assert.Equal(t, Type("x"), f.Type)
}

// Whatever comes through a pipe: nothing panics, a frame holds what its type
// promises and can be sent on, and a line over the limit is never taken.
func FuzzFrames(f *testing.F) {
	var all []byte
	for _, frame := range allFrames() {
		line, err := encode(frame)
		require.NoError(f, err)
		f.Add(line, 1<<12)
		all = append(all, line...)
	}
	f.Add(all, 1<<10)
	f.Add([]byte("{\"type\":\"x\",\"result\":{\"status\":1}}\n\n{}"), 100)
	f.Add([]byte(`{"type":"result","result":null}`+"\n"), 40)
	f.Add([]byte(`{"TYPE":"ask","Ask":{"id":1,"delegate":[{"task":"a"},null]}}`+"\n"), 100)
	f.Fuzz(func(t *testing.T, wire []byte, limit int) {
		limit = max(1, limit%(1<<14))
		r := newReader(bytes.NewReader(wire), limit)
		left := wire
		for {
			frame, err := r.next()
			line, rest, whole := bytes.Cut(left, []byte("\n"))
			left = rest
			switch {
			case errors.Is(err, ErrFrameTooLong):
				if len(line)+1 <= limit {
					t.Fatalf("%d bytes are not over the limit of %d", len(line)+1, limit)
				}
				return
			case err == io.EOF:
				if whole {
					t.Fatalf("the line %q was lost", line)
				}
				return
			case errors.Is(err, ErrFrameBroken):
				return
			case err != nil:
				t.Fatalf("error of an unknown kind: %v", err)
			case !whole || len(line)+1 > limit:
				t.Fatalf("a frame from %d bytes, newline %v, limit %d", len(line)+1, whole, limit)
			}
			sendOn(t, frame)
		}
	})
}

// sendOn checks that a frame that was read can be written, and reads the same.
func sendOn(t *testing.T, f Frame) {
	if !f.whole() {
		t.Fatalf("%q without its content", f.Type)
	}
	line, err := encode(f)
	if errors.Is(err, errors.ErrUnsupported) {
		return // of a type of the future
	}
	if err != nil {
		t.Fatal(err)
	}
	again, err := newReader(bytes.NewReader(line), len(line)).next()
	if err != nil {
		t.Fatalf("%s: %v", line, err)
	}
	if back, err := encode(again); err != nil || !bytes.Equal(line, back) {
		t.Fatalf("%s reads as %s (%v)", line, back, err)
	}
}
