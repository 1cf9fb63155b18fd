package scenario

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/ollama/ollama/api"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// shown is what a snapshot shows besides the jobs, as docs/control.md has it.
type shown struct {
	Snapshot struct {
		Jobs []struct {
			work
			Chain   []string `json:"chain"`
			Doing   string   `json:"doing"`
			Model   string   `json:"model"`
			Changed []string `json:"changed"`
			Call    struct{ Tool, Text string }
			Subtree struct {
				In int `json:"input_tokens"`
			} `json:"subtree"`
		} `json:"jobs"`
		Batch     struct{ Total, Done int }
		Questions []struct {
			ID     string   `json:"question_id"`
			Job    string   `json:"execution_id"`
			Chain  []string `json:"chain"`
			Intent struct{ Tool, Preview string }
		} `json:"questions"`
		Max    int  `json:"max"`
		Paused bool `json:"paused"`
	} `json:"snapshot"`
	Log struct {
		Entries []json.RawMessage `json:"entries"`
	} `json:"log"`
	Type string `json:"type"`
}

// show asks for something and reads the reply as what is shown.
func (f *face) show(request string) (s shown) {
	f.t.Helper()
	_, err := fmt.Fprintln(f.conn, request)
	require.NoError(f.t, err)
	for s.Type == "" || s.Type == "event" {
		line, err := f.lines.ReadBytes('\n')
		require.NoError(f.t, err)
		s = shown{}
		require.NoError(f.t, json.Unmarshal(line, &s), "%s", line)
	}
	return s
}

// does sends a request that has no reply but that it is done.
func (f *face) does(format string, args ...any) {
	f.t.Helper()
	require.Equal(f.t, "done", f.show(fmt.Sprintf(format, args...)).Type, format)
}

const look = `{"v":1,"type":"snapshot"}`

// TestMessagesOfAPerson: a person tells a running child and the root's own agent something. Each reads it before its next
// request, and the transcript of the child can be read meanwhile.
func TestMessagesOfAPerson(t *testing.T) {
	began, goOn := make(chan struct{}), make(chan struct{})
	heard := map[string]bool{}
	m := workPlay(t, map[string]workAgent{
		"lead": workSteps(workDo(workCall("delegate_task", "agent", "explorer", "task", "Look. [[child]]")),
			func(_ context.Context, k workTalk) api.Message {
				heard["lead"] = k.said("user", "[message from the user]\nBe brief.")
				return api.Message{Role: "assistant", Content: "Led."}
			}),
		"child": workSteps(func(context.Context, workTalk) api.Message {
			close(began)
			<-goOn
			return workAsk(workCall("list_directory"))
		}, func(_ context.Context, k workTalk) api.Message {
			heard["child"] = k.said("user", "[message from the user]\nLook at b.go, too.")
			return api.Message{Role: "assistant", Content: "Looked."}
		}),
	})
	w := newWorld(t, m.addr, played)
	q := w.start("", "--json", "Lead. [[lead]]")
	<-began
	f := w.face()
	jobs := f.show(look).Snapshot.Jobs
	require.Len(t, jobs, 2)
	lead, child := jobs[0], jobs[1]
	assert.Equal(t, []any{"children", []string{"default", "explorer"}, "model", "ollama:played"},
		[]any{lead.Doing, child.Chain, child.Doing, child.Model})
	tell := `{"v":1,"type":"message","message":{"execution_id":%q,"text":%q}}`
	f.does(tell, child.ExecutionID, "Look at b.go, too.")
	f.does(tell, lead.ExecutionID, "Be brief.")
	assert.Equal(t, "error", f.show(fmt.Sprintf(tell, "nobody", "x")).Type)
	log := f.show(fmt.Sprintf(`{"v":1,"type":"log","log":{"execution_id":%q}}`, child.ExecutionID)).Log.Entries
	require.NotEmpty(t, log)
	assert.Contains(t, string(log[len(log)-1]), "[[child]]")
	close(goOn)
	e := q.wait()
	assert.Equal(t, 0, e.code, e.stderr)
	assert.Equal(t, map[string]bool{"lead": true, "child": true}, heard)
}

// TestAnswersAtTheSocket: three tasks of a batch ask at once, and a face that is no terminal answers in reverse order.
func TestAnswersAtTheSocket(t *testing.T) {
	agents := map[string]workAgent{}
	for _, name := range []string{"a", "b", "c"} {
		agents[name] = workSteps(workDo(workCall("write_file", "path", name+".txt", "content", "from "+name)),
			func(_ context.Context, k workTalk) api.Message {
				return api.Message{Role: "assistant", Content: k.last().Content}
			})
	}
	w := newWorld(t, workPlay(t, agents).addr, played, "QQ_PLAN=off")
	began := make(chan struct{})
	agents["waits"] = workHang(began) // so that the socket is there before anybody asks
	q := w.start("Wait. [[waits]]\nGo. [[a]]\nGo. [[b]]\nGo. [[c]]\n", "batch", "-j4", "--no-bar", "--agent", "coder",
		"--delay", "1", "--output-format", "jsonl")
	<-began
	f := w.face()
	f.show(`{"v":1,"type":"subscribe","subscribe":{"light":true,"answers":true}}`)
	var s shown
	w.until(runTimeout, "three questions are open", func() bool {
		s = f.show(look)
		return len(s.Snapshot.Questions) == 3
	})
	answers := []string{"session", "no", "once"}
	for i := 2; i >= 0; i-- {
		question := s.Snapshot.Questions[i]
		assert.Equal(t, []any{"write_file", []string{"coder"}}, []any{question.Intent.Tool, question.Chain})
		assert.Contains(t, question.Intent.Preview, "from ")
		f.does(`{"v":1,"type":"answer","answer":{"question_id":%q,"answer":%q}}`, question.ID, answers[i])
		again := f.show(fmt.Sprintf(`{"v":1,"type":"answer","answer":{"question_id":%q,"answer":"once"}}`, question.ID))
		assert.Equal(t, "error", again.Type, "the first answer counts")
	}
	w.until(runTimeout, "they have ended", func() bool { return len(f.show(look).Snapshot.Jobs) == 1 })
	f.does(`{"v":1,"type":"cancel","cancel":{"execution_id":%q}}`, f.show(look).Snapshot.Jobs[0].ExecutionID)
	e := q.wait()
	for i, r := range endureLines(t, e)[1:] {
		assert.Equal(t, map[bool]string{true: "completed", false: "refused"}[answers[i] != "no"], r.Status)
		_, err := os.Stat(filepath.Join(w.work, string(rune('a'+i))+".txt"))
		assert.Equal(t, answers[i] != "no", err == nil, answers[i])
	}
}

// TestPauseAndCap: while a batch is paused no task starts, and the cap changes while it runs.
func TestPauseAndCap(t *testing.T) {
	s := newStage(t, nil)
	w := newWorld(t, s.addr, played)
	q := w.start("One waits\nTwo waits\nThree waits\nFour waits\nFive\nSix\n",
		"batch", "-j1", "--no-bar", "--output-format", "jsonl")
	s.await(w, "One waits")
	f := w.face()
	first := f.show(look).Snapshot
	assert.Equal(t, []any{1, false, 6}, []any{first.Max, first.Paused, first.Batch.Total})
	f.does(`{"v":1,"type":"jobs","jobs":{"max":3}}`)
	s.await(w, "Two waits", "Three waits")
	f.does(`{"v":1,"type":"pause"}`)
	f.does(`{"v":1,"type":"cancel","cancel":{"execution_id":%q}}`, f.jobs()["Two waits"].ExecutionID)
	w.until(runTimeout, "it has ended", func() bool { return f.show(look).Snapshot.Batch.Done == 1 })
	time.Sleep(300 * time.Millisecond)
	assert.NotContains(t, s.tasks(), "Four waits")
	assert.True(t, f.show(look).Snapshot.Paused)
	f.does(`{"v":1,"type":"resume"}`)
	s.await(w, "Four waits")
	s.free()
	e := q.wait()
	var got []string
	for _, r := range endureLines(t, e) {
		got = append(got, r.Status)
	}
	assert.Equal(t, []string{"completed", "cancelled", "completed", "completed", "completed", "completed"}, got)
}
