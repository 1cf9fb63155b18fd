package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qq/internal/standin"
)

// newTestStage is a stage without a qq.
func newTestStage(t *testing.T) *stage {
	t.Helper()
	dir := t.TempDir()
	h := &house{dir: dir, program: filepath.Join(dir, "program")}
	require.NoError(t, os.WriteFile(h.program, nil, 0o700))
	s, err := newStage(t.Context(), h)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, s.close()) })
	return s
}

func TestChoose(t *testing.T) {
	all, err := choose(cases(), "")
	require.NoError(t, err)
	assert.Len(t, all, len(cases()))
	some, err := choose(cases(), "^child")
	require.NoError(t, err)
	assert.Len(t, some, 2*4+2, "two of them in four dialects")
	assert.Equal(t, 1, together(some))
	assert.Equal(t, 3, together(some[1:]), "those in other dialects at once")
	some, err = choose(cases(), "^429 of")
	require.NoError(t, err)
	assert.Equal(t, 1, together(some[1:]), "what must be alone")
	_, err = choose(cases(), "nothing")
	assert.EqualError(t, err, "-case nothing: no such case")
}

func TestTable(t *testing.T) {
	var out strings.Builder
	require.NoError(t, table(&out, []row{
		{name: "a", played: true, exit: 4, status: "1 idle", requests: 2, took: 1500 * time.Millisecond,
			notes: []string{"a figure"}},
		{name: "b", played: true, lost: 1, wrong: []string{"1 tasks are lost"}},
		{name: "c", skipped: "no disk"},
	}))
	assert.Equal(t, `case  exit  status by JSON  requests  seconds  lost  doubled  processes left  files left  verdict
a     4     1 idle          2         1.50     0     0        0               0           ok
b     0                     0         0.00     1     0        0               0           FAILED
c                                                                                         skipped: no disk

a: a figure
b: 1 tasks are lost
`, out.String())
}

// TestCheck: a result that contradicts itself is noticed.
func TestCheck(t *testing.T) {
	for document, agrees := range map[string]bool{
		`{"success":true,"output":"x","error":null,"status":"completed","exit_code":0}`:                    true,
		`{"success":false,"output":"","error":"no","status":"idle","exit_code":124}`:                       true,
		`{"success":true,"output":"x","error":null,"status":"idle","exit_code":0}`:                         false,
		`{"success":true,"output":"x","error":null,"status":"completed","exit_code":1}`:                    false,
		`{"success":true,"output":"x","error":"no","status":"completed","exit_code":0}`:                    false,
		`{"success":false,"output":"x","error":null,"status":"failed","exit_code":1}`:                      false,
		`{"success":true,"output":"x","error":null,"status":"completed"}`:                                  false,
		`{"success":true,"output":"x","error":null,"status":"completed","exit_code":0,"duration_ms":-1}`:   false,
		`{"success":true,"output":"x","error":null,"status":"completed","exit_code":0,"queued_ms":-86000}`: false,
	} {
		s := newTestStage(t)
		var r result
		require.NoError(t, json.Unmarshal([]byte(document), &r))
		s.check(r)
		assert.Equal(t, agrees, len(s.row.wrong) == 0, document)
	}
}

// TestSurvived counts the tasks that are lost, and those that were answered twice.
func TestSurvived(t *testing.T) {
	s := newTestStage(t)
	for _, task := range []string{"a", "b", "b"} {
		ask(t, s, "fast", task)
	}
	s.survived(ended{}, []result{{Status: "completed"}, {Status: "failed"}}, 3)
	assert.Equal(t, 2, s.row.lost)
	assert.Equal(t, 1, s.row.doubled)
	s.row = row{} // what close would complain about
}

// ask puts one question to the server of s.
func ask(t *testing.T, s *stage, model, task string) {
	t.Helper()
	resp, err := post(s, model, task)
	require.NoError(t, err)
	require.Equal(t, "200 OK", resp)
}

// TestLook: a task is doubled that is asked for after its result stood in the
// output or in the joblog, and not one that was under way.
func TestLook(t *testing.T) {
	s := newTestStage(t)
	g := &saga{s: s, name: "batch", n: 4, done: map[int]string{}, out: filepath.Join(s.work, "out"),
		joblog: filepath.Join(s.work, "joblog")}
	require.NoError(t, g.look())
	assert.False(t, g.begun)
	for i := range 4 {
		ask(t, s, "echo", taskText("batch", i, 0))
	}
	require.NoError(t, os.WriteFile(g.out, []byte(g.answer(0)+"\n"+g.answer(3)), 0o600)) // the last line is a half
	require.NoError(t, os.WriteFile(g.joblog,
		[]byte("Seq\tHost\n2\t:\t1.0\t0.1\t0\t0\t0\t0\tx\n3\t:\t1.0\t0.1\t0\t0\t1\t0\tx\n"), 0o600))
	require.NoError(t, g.look())
	assert.True(t, g.begun)
	assert.Equal(t, map[int]string{0: g.out, 1: g.joblog}, g.done)
	for i := range 4 {
		ask(t, s, "echo", taskText("batch", i, 0))
	}
	require.NoError(t, g.look())
	assert.Equal(t, 2, s.row.doubled)
	assert.Equal(t, []string{
		"task 0 was asked for again, though its result stood in out",
		"task 1 was asked for again, though its result stood in joblog",
	}, s.row.wrong)
	s.row = row{}
}

// TestQuiet: a request that comes too early is noticed.
func TestQuiet(t *testing.T) {
	s := newTestStage(t)
	s.server.Strike(once(standin.Fault{Status: 429}))
	resp, err := post(s, "fast", "a")
	require.NoError(t, err)
	assert.Equal(t, "429 Too Many Requests", resp)
	s.quietFor(time.Minute, 0)
	assert.Empty(t, s.row.wrong)
	ask(t, s, "fast", "a")
	s.quietFor(time.Minute, 0)
	assert.Len(t, s.row.wrong, 1)
}

// TestLeft: what a run leaves behind is found.
func TestLeft(t *testing.T) {
	s := newTestStage(t)
	assert.Empty(t, s.temporary())
	path := filepath.Join(s.home, "run", "1-2")
	require.NoError(t, os.MkdirAll(path, 0o700))
	assert.Equal(t, []string{path}, s.temporary())
	require.NoError(t, os.RemoveAll(path))
}

// TestSocketOf finds the connection of this process, though the same local port
// is that of a closed connection to another server.
func TestSocketOf(t *testing.T) {
	s := newTestStage(t)
	other, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer other.Close()
	shared := net.Dialer{Control: func(_, _ string, c syscall.RawConn) error {
		var set error
		reached := c.Control(func(fd uintptr) {
			set = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1)
		})
		return errors.Join(set, reached)
	}}
	shared.LocalAddr = &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)}
	closed, err := shared.Dial("tcp", other.Addr().String())
	require.NoError(t, err)
	shared.LocalAddr = closed.LocalAddr()
	conn, err := shared.Dial("tcp", s.server.Host())
	require.NoError(t, err)
	defer conn.Close()
	require.NoError(t, closed.Close())

	socket, err := socketOf(conn.LocalAddr().String(), s.server.Host())
	require.NoError(t, err)
	assert.NotEqual(t, "socket:[0]", socket)
	_, err = socketOf(conn.LocalAddr().String(), other.Addr().String())
	require.Error(t, err, "it is closed")
	open, err := filepath.Glob("/proc/self/fd/*")
	require.NoError(t, err)
	found := false
	for _, fd := range open {
		to, _ := os.Readlink(fd)
		found = found || to == socket
	}
	assert.True(t, found, socket)
}

// post sends a task and returns the status line.
func post(s *stage, model, task string) (status string, err error) {
	body, err := json.Marshal(map[string]any{"model": model,
		"messages": []map[string]string{{"role": "user", "content": task}}})
	if err != nil {
		return "", err
	}
	resp, err := http.Post("http://"+s.server.Host()+"/api/chat", "application/json", bytes.NewReader(body))
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	return resp.Status, err
}
