package scenario

import (
	"context"
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ollama/ollama/api"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// citySchema is the schema of an answer, as an argument of a task.
func citySchema() map[string]any {
	return map[string]any{"type": "object", "required": []string{"city"}, "additionalProperties": false,
		"properties": map[string]any{"city": map[string]any{"type": "string"}}}
}

const (
	unfit  = `{"town": "Paris"}`
	fit    = `{"city": "Paris"}`
	repair = "Your answer does not fit the JSON Schema: "
)

// schemaAgents answer with what does not fit: one mends that when it is sent
// back, one never does.
func schemaAgents(t *testing.T) map[string]workAgent {
	sentBack := func(text string) workAgent {
		return func(_ context.Context, k workTalk) api.Message {
			assert.Equal(t, "user", k.last().Role)
			assert.Contains(t, k.last().Content, repair)
			return api.Message{Role: "assistant", Content: text}
		}
	}
	return map[string]workAgent{
		"mends":    workSteps(workText(unfit), sentBack(fit)),
		"stubborn": workSteps(workText(unfit), sentBack("Paris."), sentBack(unfit)),
	}
}

// TestChildSchema: the answer of a child has to fit the schema of its task. It is
// sent back at most twice, and stands in the result as a value.
func TestChildSchema(t *testing.T) {
	t.Run("batch", func(t *testing.T) {
		w := newWorld(t, workPlay(t, schemaAgents(t)).addr, played)
		var lines []string
		for _, name := range []string{"mends", "stubborn"} {
			line, err := json.Marshal(map[string]any{"agent": "analyzer", "task": "Which city? [[" + name + "]]",
				"schema": citySchema()})
			require.NoError(t, err)
			lines = append(lines, string(line)+"\n")
		}
		e := w.qq("batch", w.file("tasks.jsonl", strings.Join(lines, "")), "--no-bar", "--output-format", "jsonl")
		assert.Equal(t, 4, e.code, "exit code")
		results := resultLines(t, e)
		require.Len(t, results, 2)
		assert.Equal(t, "completed", results[0].Status)
		assert.JSONEq(t, fit, string(results[0].Structured))
		assert.Equal(t, fit, *results[0].Output)
		assert.Equal(t, "failed", results[1].Status)
		assert.Contains(t, *results[1].Error, "the answer does not fit the schema: ")
		assert.Empty(t, results[1].Structured)
	})
	for _, tool := range []string{"delegate_task", "run_parallel_tasks"} {
		t.Run(tool, func(t *testing.T) {
			agents := schemaAgents(t)
			asked := []any{"agent", "analyzer", "task", "Which city? [[mends]]", "schema", citySchema()}
			if tool == "run_parallel_tasks" {
				asked = []any{"tasks",
					[]any{map[string]any{"agent": "analyzer", "task": "Which city? [[mends]]", "schema": citySchema()}}}
			}
			agents["lead"] = workSteps(workDo(workCall(tool, asked...)), workText("Asked."))
			r := recordPlayed(t, workPlay(t, agents))
			w := newWorld(t, r.host, played)
			w.qq("Lead. [[lead]]").answered("Asked.")
			told := r.last(t, "[[lead]]").of("tool")
			require.Len(t, told, 1)
			if tool == "delegate_task" {
				answer, took, _ := strings.Cut(told[0], "\n")
				assert.Equal(t, fit, answer)
				assert.Regexp(t, `^\[analyzer [0-9a-f]{8}: completed in \d+\.\d s.*\]$`, took)
				return
			}
			var results []result
			require.NoError(t, json.Unmarshal(arrayIn(told[0]), &results))
			require.Len(t, results, 1)
			assert.JSONEq(t, fit, string(results[0].Structured))
		})
	}
}

// arrayIn returns the array of results in the answer of run_parallel_tasks. Below it is a block with their counts.
func arrayIn(answer string) []byte {
	array, _, _ := strings.Cut(answer, "\n\n")
	return []byte(array)
}

// TestTurnLimit: an agent that calls tools until its turns are used up is asked
// once more, without tools, and what it says then is kept.
func TestTurnLimit(t *testing.T) {
	const last = "I saw notes, not all of them."
	restless := func(_ context.Context, k workTalk) api.Message {
		if strings.Contains(k.last().Content, "You have used all your turns.") {
			// A model may well go on, also where no tools are offered.
			return api.Message{Role: "assistant", Content: last,
				ToolCalls: []api.ToolCall{workCall("list_directory", "path", ".")}}
		}
		return api.Message{Role: "assistant", Content: "I go on.",
			ToolCalls: []api.ToolCall{workCall("list_directory", "path", strings.Repeat("./", k.turn()+1))}}
	}
	for _, place := range workPlaces {
		t.Run(place, func(t *testing.T) {
			r := recordPlayed(t, workPlay(t, map[string]workAgent{
				"look": restless,
				"lead": workSteps(workDo(workCall("run_parallel_tasks", "tasks",
					[]any{map[string]any{"agent": "restless", "task": "Look. [[look]]"}})), workText("Asked.")),
			}))
			w := newWorld(t, r.host, played)
			w.file("notes.txt", notes)
			w.file(".qq/agents/restless.md",
				"---\nname: restless\ndescription: looks\ntools: [list_directory]\nmax_turns: 2\n---\nYou look.\n")
			var e result
			if place == "root" {
				e = w.qq("Look. [[look]]", "--agent", "restless", "--json").failed(1, "turn_limit")
			} else {
				w.qq("Lead. [[lead]]").answered("Asked.")
				var results []result
				require.NoError(t, json.Unmarshal(arrayIn(r.last(t, "[[lead]]").of("tool")[0]), &results))
				require.Len(t, results, 1)
				e = results[0]
				assert.Equal(t, "turn_limit", e.Status)
			}
			assert.Equal(t, 1, *e.ExitCode)
			assert.Equal(t, last, *e.Output)
			assert.Equal(t, "the agent used all its 2 turns", *e.Error)

			var offered [][]string
			for _, c := range r.all() {
				if strings.Contains(c.of("user")[0], "[[look]]") {
					offered = append(offered, c.offered())
				}
			}
			tools := []string{"list_directory"}
			assert.Equal(t, [][]string{tools, tools, nil}, offered, "the last request is without tools")
			assert.Len(t, r.last(t, "[[look]]").of("tool"), 2, "the call of the last word is not run")
		})
	}
}

// TestMCPServers: the servers of a definition are kept as they are written, and
// nothing else comes of them: no program is started, no tool is there.
func TestMCPServers(t *testing.T) {
	r := recordPlayed(t,
		workPlay(t, map[string]workAgent{"look": workSteps(workDo(workCall("mcp__files__read", "path", "x")),
			workText("Looked."))}))
	w := newWorld(t, r.host, played)
	started := filepath.Join(w.dir, "started")
	servers := "mcp_servers:\n  files: {command: touch, args: [" + started + ", 1], env: {A: b}}\n"
	shown := map[string]map[string]any{}
	for name, more := range map[string]string{"with": servers, "without": ""} {
		w.file(".qq/agents/"+name+".md",
			"---\nname: "+name+"\ndescription: looks\ntools: [list_directory]\n"+more+"---\nYou look.\n")
		e := w.qq("agents", "show", name, "--json")
		require.Equal(t, 0, e.code)
		var a map[string]any
		require.NoError(t, json.Unmarshal([]byte(e.stdout), &a))
		shown[name] = a
	}
	assert.Equal(t, map[string]any{"files": map[string]any{"command": "touch", "args": []any{started, 1.0},
		"env": map[string]any{"A": "b"}}}, shown["with"]["mcp_servers"])
	assert.Equal(t, []any{`line 5: "mcp_servers" does nothing in this version`}, shown["with"]["warnings"])
	for name, a := range shown {
		delete(a, "mcp_servers")
		delete(a, "warnings")
		for key, value := range a { // the name and the path, which differ
			if text, ok := value.(string); ok {
				a[key] = strings.ReplaceAll(text, name, "NAME")
			}
		}
	}
	assert.Equal(t, shown["without"], shown["with"])

	w.qq("Look. [[look]]", "--agent", "with").answered("Looked.")
	c := r.last(t, "[[look]]")
	assert.Equal(t, []string{"list_directory"}, c.offered())
	assert.Equal(t, []string{`Error: no tool "mcp__files__read". The tools are: list_directory`}, c.of("tool"))
	assert.NoFileExists(t, started)
	assert.Equal(t, 0, w.qq("agents", "check", "with").code)
}

// TestChangedByOthers: what anybody below it changed stands in the result of the
// root: a grandchild, and a child in the background that nobody collected,
// whether it has ended by itself or was ended with the root.
func TestChangedByOthers(t *testing.T) {
	edit := func(file string) workAgent { return workDo(workCall("write_file", "path", file, "content", "x\n")) }
	for _, itself := range []bool{true, false} {
		t.Run(map[bool]string{true: "ended by itself", false: "ended with the root"}[itself], func(t *testing.T) {
			edited := make(chan struct{})
			next := workHang(edited)
			if itself {
				next = func(context.Context, workTalk) api.Message {
					close(edited)
					return api.Message{Role: "assistant", Content: "Edited."}
				}
			}
			var w *world
			m := workPlay(t, map[string]workAgent{
				"deep": workSteps(edit("deep.txt"), workText("Edited.")),
				"pass": workSteps(workDo(workCall("delegate_task", "agent", "writer", "task", "Edit. [[deep]]")),
					workText("Passed on.")),
				"aside": workSteps(edit("aside.txt"), next),
				"lead": workSteps(
					workDo(workCall("delegate_task", "agent", "passer", "task", "Pass it on. [[pass]]")),
					workDo(workCall("spawn_agent", "instructions", "Edit. [[aside]]", "agent", "writer", "background",
						true)),
					func(ctx context.Context, _ workTalk) api.Message {
						workAwait(ctx, edited)
						ended := func() bool { return len(w.processes()) == 1 }
						assert.True(t, !itself || assert.Eventually(t, ended, goneTimeout, pollEvery),
							"the child has ended")
						return api.Message{Role: "assistant", Content: "Done."}
					},
					workText("Done, for sure.")), // after it was told that there is a child
			})
			w = newWorld(t, m.addr, played, "QQ_APPROVE=auto", "QQ_AGENT=lead")
			w.file(".qq/agents/lead.md", workLead)
			w.file(".qq/agents/passer.md", handy("passer", "delegate_task"))
			w.file(".qq/agents/writer.md", handy("writer", "write_file"))
			e := w.qq("Lead. [[lead]]", "--json")
			assert.Equal(t, 0, e.code, "exit code")
			assert.Equal(t, []string{"aside.txt", "deep.txt"}, e.changed())
			for _, name := range []string{"aside.txt", "deep.txt"} {
				assert.FileExists(t, filepath.Join(w.work, name))
			}
			assert.Equal(t, []string{"passer depth=1", "writer depth=2", "writer depth=1"}, w.spawned())
		})
	}
}
