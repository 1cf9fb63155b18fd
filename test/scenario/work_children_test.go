package scenario

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/ollama/ollama/api"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qq/test/ollamatest"
	"qq/test/qqbin"
	"qq/test/tinymodel"
)

// workLead is the definition of an agent with children in the background.
const workLead = `---
name: lead
description: has children in the background
tools: [list_directory, delegate_task, spawn_agent, list_children, wait_children, terminate_child, send_message]
---
You lead others.
`

// workHelper is the definition of an agent that can be such a child.
const workHelper = `---
name: helper
description: does what it is told
tools: [list_directory, run_pty_cmd, send_message]
---
You help.
`

// workTeam is a world with a lead and a helper. Helpers can write, and run at once all the same.
func workTeam(t *testing.T, m *workModel) *world {
	t.Helper()
	w := newWorld(t, m.addr, played, "QQ_AGENT=lead", "QQ_APPROVE=auto", "QQ_PLAN=off")
	w.file(".qq/agents/lead.md", workLead)
	w.file(".qq/agents/helper.md", workHelper)
	return w
}

// workSleeper is a program of the test's own that sleeps, so that its processes
// are found wherever they went.
type workSleeper struct {
	t    *testing.T
	path string
}

func newWorkSleeper(t *testing.T) workSleeper {
	t.Helper()
	from, err := exec.LookPath("sleep")
	require.NoError(t, err)
	in, err := os.Open(from)
	require.NoError(t, err)
	defer in.Close()
	s := workSleeper{t, filepath.Join(t.TempDir(), "sleeper")}
	out, err := os.OpenFile(s.path, os.O_CREATE|os.O_WRONLY|os.O_EXCL, 0o700)
	require.NoError(t, err)
	_, err = io.Copy(out, in)
	require.NoError(t, err)
	require.NoError(t, out.Close())
	t.Cleanup(func() { s.assertGone() })
	return s
}

// running are the processes that sleep.
func (s workSleeper) running() []int {
	pids, err := qqbin.Processes(s.path)
	assert.NoError(s.t, err)
	return pids
}

// awaitRunning waits until so many sleep.
func (s workSleeper) awaitRunning(n int) {
	assert.Eventually(s.t, func() bool { return len(s.running()) == n }, runTimeout, pollEvery, "%d sleep", n)
}

// assertGone says that none is left, at this moment.
func (s workSleeper) assertGone() { assert.Empty(s.t, s.running(), "processes that sleep") }

// workOf are the processes that a child is or has started, as the mark in their
// environment says. Those that have ended have none.
func workOf(t *testing.T, executionID string) (pids []int) {
	t.Helper()
	entries, err := os.ReadDir("/proc")
	assert.NoError(t, err)
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		if env, err := os.ReadFile("/proc/" + e.Name() + "/environ"); err == nil && strings.Contains(string(env),
			executionID) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// workSpawn is a call that starts a helper in the background.
func workSpawn(task string) api.ToolCall {
	return workCall("spawn_agent", "instructions", task, "agent", "helper", "background", true)
}

// workStarted is the id in the answer to workSpawn.
func workStarted(t *testing.T, answer string) string {
	t.Helper()
	found := regexp.MustCompile(`^started ([0-9a-f-]{36}) \(helper\): `).FindStringSubmatch(answer)
	if !assert.NotNil(t, found, answer) {
		return "none"
	}
	return found[1]
}

// workResults reads the results in an answer to wait_children or run_parallel_tasks, by execution id.
func workResults(t *testing.T, answer string) map[string]workResult {
	t.Helper()
	var list []workResult
	assert.NoError(t, json.Unmarshal(arrayIn(answer), &list), answer)
	byID := map[string]workResult{}
	for _, r := range list {
		byID[r.ExecutionID] = r
	}
	return byID
}

// workResult is what an agent reads about a child.
type workResult struct {
	ExecutionID  string   `json:"execution_id"`
	Status       string   `json:"status"`
	Output       string   `json:"output"`
	Error        *string  `json:"error"`
	ChangedFiles []string `json:"changed_files"`
}

// TestTerminateOne: of three children at work one is ended, with all that it
// started, though that does not care about signals. The other two finish and are collected later.
func TestTerminateOne(t *testing.T) {
	sleeper := newWorkSleeper(t)
	goOn := make(chan struct{}) // closed when one was ended
	patient := func(text string) workAgent {
		return func(ctx context.Context, k workTalk) api.Message {
			if k.turn() > 0 {
				return workText(text)(ctx, k)
			}
			workAwait(ctx, goOn)
			return workAsk(workCall("list_directory", "path", "."))
		}
	}
	var ids [3]string
	m := workPlay(t, map[string]workAgent{
		"first": patient("First."), "second": patient("Second."),
		"doomed": workSteps(workDo(workCall("run_pty_cmd", "command",
			fmt.Sprintf("trap '' TERM HUP INT; %[1]s 300 & setsid %[1]s 300 & %[1]s 300", sleeper.path)))),
		"lead": workSteps(
			workDo(workSpawn("One. [[first]]"), workSpawn("Two. [[doomed]]"), workSpawn("Three. [[second]]")),
			func(_ context.Context, k workTalk) api.Message {
				for i, answer := range k.results() {
					ids[i] = workStarted(t, answer)
				}
				sleeper.awaitRunning(3)
				assert.Greater(t, len(workOf(t, ids[1])), 3, "the child, its shell and what that started")
				return workAsk(workCall("terminate_child", "id", ids[1][len(ids[1])-8:]))
			},
			func(_ context.Context, k workTalk) api.Message {
				sleeper.assertGone()
				assert.Empty(t, workOf(t, ids[1]), "processes of the child that was ended")
				assert.Contains(t, k.last().Content, "ended "+ids[1])
				assert.NotEmpty(t, workOf(t, ids[0]))
				assert.NotEmpty(t, workOf(t, ids[2]))
				return workAsk(workCall("list_children"))
			},
			func(_ context.Context, k workTalk) api.Message {
				assert.ElementsMatch(t, []string{ // they were started at once, in any order
					ids[0] + " running helper: One. [[first]]", ids[1] + " cancelled helper: Two. [[doomed]]",
					ids[2] + " running helper: Three. [[second]]",
				}, strings.Split(k.last().Content, "\n"))
				close(goOn)
				return workAsk(workCall("wait_children"))
			},
			func(_ context.Context, k workTalk) api.Message {
				results := workResults(t, k.last().Content)
				assert.Len(t, results, 3)
				assert.Equal(t, workResult{ids[0], "completed", "First.", nil, nil}, results[ids[0]])
				assert.Equal(t, workResult{ids[2], "completed", "Second.", nil, nil}, results[ids[2]])
				ended := results[ids[1]]
				assert.Equal(t, "cancelled", ended.Status)
				if assert.NotNil(t, ended.Error) {
					assert.Equal(t, "Sub-agent cancelled by user.", *ended.Error)
				}
				return api.Message{Role: "assistant", Content: "Two are done."}
			},
		),
	})
	w := workTeam(t, m)
	w.qq("Lead. [[lead]]").answered("Two are done.")
}

// TestCollectLater: a lead starts a child in the background, has another one do
// something meanwhile, and then collects the answer of the first.
func TestCollectLater(t *testing.T) {
	engines(t, func(t *testing.T, s *ollamatest.Server) {
		// The helper has a model of its own, to which the markers of the lead are
		// words like others.
		helper := ollamatest.Spec(tinymodel.Script{Start: "[[whatever]]", Text: "Helped. [[answer]]"})
		helper.Default = "[[whatever]]"
		lead := ollamatest.Spec(
			tinymodel.Script{Start: "[[lead]]",
				Text: `<tool_call>{"name": "spawn_agent", "arguments": {"instructions": "Help. [[meanwhile]]", ` +
					`"agent": "helper", "background": true}}</tool_call>`},
			tinymodel.Script{Start: "[[meanwhile]]", Text: call("summarizer", "Write a line. [[line]]")},
			tinymodel.Script{Start: "[[line]]", Text: "The sea is wide. [[collect]]"},
			tinymodel.Script{Start: "[[collect]]",
				Text: `<tool_call>{"name": "wait_children", "arguments": {}}</tool_call>`},
			tinymodel.Script{Start: "[[answer]]", Text: "Collected."},
		)
		lead.Context, helper.Context = 16384, 16384
		for name, spec := range map[string]tinymodel.Spec{"work-lead": lead, "work-helper": helper} {
			require.NoError(t, s.Create(t.Context(), ollamatest.Model{Name: name, Spec: spec, Template: template}))
		}
		w := newWorld(t, s.URL.Host, "work-lead", "QQ_AGENT=lead", "QQ_APPROVE=auto")
		w.file(".qq/agents/lead.md", workLead)
		w.file(".qq/agents/helper.md",
			"---\nname: helper\ndescription: helps\ntools: [read_file]\nmodel: ollama:work-helper\n---\nYou help.\n")
		e := w.qq("Lead. [[lead]]", "--output-format", "stream-json")
		require.Equal(t, 0, e.code)
		// both wait for the record to open
		assert.ElementsMatch(t, []string{"helper depth=1", "summarizer depth=1"}, w.spawned())
		var tools []string
		for _, found := range regexp.MustCompile(`"type":"tool_start".*"tool":"(\w+)"`).FindAllStringSubmatch(e.stdout,
			-1) {
			tools = append(tools, found[1])
		}
		assert.Equal(t, []string{"spawn_agent", "delegate_task", "wait_children"}, tools)
		assert.Contains(t, e.stdout, `"output":"Collected."`)
	})
}

// workForgetful is a lead that starts a child in the background and does not
// collect it, though it is told. It answers while the child is at work.
func workForgetful(t *testing.T, sleeper workSleeper) workAgent {
	return workSteps(
		workDo(workSpawn("Sleep. [[sleep]]")),
		func(_ context.Context, k workTalk) api.Message {
			workStarted(t, k.last().Content)
			sleeper.awaitRunning(2)
			return api.Message{Role: "assistant", Content: "Done, I think."}
		},
		func(_ context.Context, k workTalk) api.Message {
			assert.Equal(t, "user", k.last().Role)
			assert.Contains(t, k.last().Content, "children whose results you have not collected")
			assert.Regexp(t, `[0-9a-f-]{36} \(helper, running\): Sleep`, k.last().Content)
			assert.Len(t, sleeper.running(), 2, "it was told, and nothing was ended yet")
			return api.Message{Role: "assistant", Content: "Done, for sure."}
		},
	)
}

// TestNotCollected: a child that nobody collects ends with its parent, be that
// the root's own agent or a child itself, and nothing is left.
func TestNotCollected(t *testing.T) {
	for _, tt := range []struct {
		name, prompt, want string
		spawned            []string
	}{
		{"of the root", "Start. [[forgetful]]", "Done, for sure.", []string{"helper depth=1"}},
		{"of a child", "Delegate. [[top]]", "All is done.", []string{"lead depth=1", "helper depth=2"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			sleeper := newWorkSleeper(t)
			m := workPlay(t, map[string]workAgent{
				"sleep": workSteps(workDo(workCall("run_pty_cmd", "command",
					fmt.Sprintf("setsid %[1]s 300 & %[1]s 300", sleeper.path)))),
				"top": workSteps(workDo(workCall("delegate_task", "agent", "lead", "task", "Start. [[forgetful]]")),
					func(_ context.Context, k workTalk) api.Message {
						assert.True(t, strings.HasPrefix(k.last().Content, "Done, for sure.\n[lead "), k.last().Content)
						sleeper.assertGone()
						return api.Message{Role: "assistant", Content: "All is done."}
					}),
				"forgetful": workForgetful(t, sleeper),
			})
			w := workTeam(t, m)
			args := []string{tt.prompt}
			if tt.spawned[0] != "helper depth=1" {
				args = append(args, "--agent", "default") // no agent delegates to itself
			}
			w.qq(args...).answered(tt.want)
			sleeper.assertGone()
			assert.Empty(t, w.processes(), "left when qq has returned")
			assert.Equal(t, tt.spawned, w.spawned())
		})
	}
}

// TestMessages: what a lead sends to a child that is at work, and what that sends
// back, stands in the next request of whom it is for.
func TestMessages(t *testing.T) {
	const toChild, toParent = "[message from your parent]\nThe word is blue.", "The word was green."
	atWork, sent, read := make(chan struct{}), make(chan struct{}), make(chan struct{})
	var id string
	m := workPlay(t, map[string]workAgent{
		"child": workSteps(
			func(ctx context.Context, k workTalk) api.Message {
				assert.False(t, k.said("user", "blue"))
				close(atWork)
				workAwait(ctx, sent)
				return workAsk(workCall("send_message", "to", "parent", "text", toParent))
			},
			func(_ context.Context, k workTalk) api.Message {
				assert.Equal(t, "sent to the agent that started you", k.results()[0])
				assert.Equal(t, api.Message{Role: "user", Content: toChild}, k.last())
				close(read)
				return api.Message{Role: "assistant", Content: "Blue."}
			},
		),
		"lead": workSteps(
			workDo(workSpawn("Wait for a word. [[child]]")),
			func(ctx context.Context, k workTalk) api.Message {
				id = workStarted(t, k.last().Content)
				workAwait(ctx, atWork)
				return workAsk(workCall("send_message", "to", id, "text", "The word is blue."))
			},
			func(ctx context.Context, k workTalk) api.Message {
				assert.Equal(t, "sent to "+id+" (helper)", k.last().Content)
				close(sent)
				workAwait(ctx, read)
				return workAsk(workCall("wait_children"))
			},
			func(_ context.Context, k workTalk) api.Message {
				assert.Equal(t, api.Message{Role: "user", Content: "[message from your child " + id + " (helper)]\n" +
					toParent}, k.last())
				results := workResults(t, k.results()[2])
				assert.Equal(t, map[string]workResult{id: {id, "completed", "Blue.", nil, nil}}, results)
				return api.Message{Role: "assistant", Content: "Heard."}
			},
		),
	})
	w := workTeam(t, m)
	w.qq("Lead. [[lead]]").answered("Heard.")
}
