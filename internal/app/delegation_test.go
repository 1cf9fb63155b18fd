package app

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qq/internal/app/admin"
	"qq/internal/app/figures"
	"qq/internal/record/ledger"
	"qq/internal/standin"
	"qq/pkg/task"
)

// delegate is a model's call of delegate_task.
func delegate(agent, text string) string {
	return fmt.Sprintf(
		`<tool_call>{"name":"delegate_task","arguments":{"task":%q,"agent":%q}}</tool_call>`,
		text,
		agent,
	)
}

// delegationScripts are scripts for agents that delegate, and for their children. The
// answer of a child has the marker that selects the next script of its parent.
func delegationScripts() standin.Option {
	return standin.Scripts(
		standin.Script{Start: "[[lead]]", Text: `<tool_call>{"name":"run_parallel_tasks","arguments":{"tasks":[` +
			`{"task":"[[slow]]","agent":"coder"},{"task":"[[quick]]","agent":"explorer"}]}}</tool_call>`},
		standin.Script{Start: "[[slow]]", Text: "first", Fault: &standin.Fault{BeforeFirst: 200 * time.Millisecond}},
		standin.Script{Start: "[[quick]]", Text: "second [[joined]]"},
		standin.Script{Start: "[[joined]]", Text: "first and second"},
		standin.Script{Start: "[[both]]", Text: delegate("coder", "[[slow]]") + delegate("explorer", "[[quick]]")},
		standin.Script{Start: "[[beside]]", Text: delegate("explorer", "[[second]] a") +
			`<tool_call>{"name":"read_file","arguments":{"path":"notes.txt"}}</tool_call>` +
			delegate("explorer", "[[second]] b")},
		standin.Script{Start: "[[second]]", Text: "found", Fault: &standin.Fault{BeforeFirst: time.Second}},
		standin.Script{Start: "[[named]]", Text: `<tool_call>{"name":"spawn_agent","arguments":{"instructions":` +
			`"[[quick]]","name":"scout","model":"ollama:small","working_dir":"src","tools":["read_file"]}}</tool_call>`},
		standin.Script{Start: "[[top]]", Text: delegate("coder", "[[middle]]")},
		standin.Script{Start: "[[middle]]", Text: delegate("explorer", "[[bottom]]")},
		standin.Script{Start: "[[bottom]]", Text: "from the bottom [[done]]"},
		standin.Script{Start: "[[done]]", Text: "as said [[done]]"},
		standin.Script{Start: "[[fails]]", Text: delegate("coder", "[[failing]]")},
		standin.Script{
			Start: "[[failing]]",
			Text:  "gone on",
			Fault: &standin.Fault{Status: 500, Error: "out of memory", Times: 1},
		},
		standin.Script{Start: "[[hangs]]", Text: delegate("coder", "[[never]]")},
		standin.Script{Start: "[[never]]", Text: "gone on", Fault: &standin.Fault{BeforeFirst: -1, Times: 1}},
		standin.Script{Start: "[[self]]", Text: delegate("coder", "[[quick]]")},
		standin.Script{Start: "[[research]]", Text: delegate("researcher", "[[quick]]")},
		standin.Script{Start: "[[nobody]]", Text: delegate("nobody", "[[quick]]")},
		standin.Script{Start: "[[long]]", Text: delegate("coder", "[[much]]")},
		standin.Script{Start: "[[much]]", Text: "beginning " + strings.Repeat("ö", 100) + " ending [[done]]"},
	)
}

// toolResults are what the tools of a session answered.
func (w *world) toolResults() []string {
	w.t.Helper()
	var sessions []admin.SessionRow
	require.NoError(w.t, json.Unmarshal([]byte(w.run("sessions", "--json").out), &sessions))
	require.NotEmpty(w.t, sessions)
	var transcript struct {
		Entries []struct{ Role, Content string }
	}
	require.NoError(w.t, json.Unmarshal([]byte(w.run("sessions", "show", sessions[0].ID, "--json").out), &transcript))
	var results []string
	for _, e := range transcript.Entries {
		if e.Role == "tool" {
			results = append(results, e.Content)
		}
	}
	return results
}

// TestDelegation: an agent delegates to children in processes of their own and gets their
// answers in the order of its calls.
func TestDelegation(t *testing.T) {
	w, _ := newServedWorld(t, delegationScripts())
	e := w.run("[[lead]]")
	assert.Equal(t, ended{out: "first and second\n"}, e)
	var results []task.Result
	array, below, _ := strings.Cut(w.toolResults()[0], "\n\n")
	require.NoError(t, json.Unmarshal([]byte(array), &results))
	assert.Equal(t, "2 tasks: 2 completed", below)
	require.Len(t, results, 2)
	assert.Equal(t, "first", results[0].Output)
	assert.Equal(t, "second [[joined]]", results[1].Output)

	assert.Equal(t, "first and second\n", w.run("[[both]]").out)
	both := w.toolResults()
	require.Len(t, both, 2, "two calls in one answer")
	assert.Regexp(t, `^first\n\[coder [0-9a-f]{8}: completed in \d+\.\d s, [\d,]+ tokens in, 1 out\]$`, both[0])
	assert.Regexp(t, `^second \[\[joined\]\]\n\[explorer [0-9a-f]{8}: completed in \d+\.\d s, \d+ tokens in, 2 out\]$`,
		both[1])
	assert.Contains(t, w.run("--json", "[[both]]").out, `"output":"first and second","error":null`)

	e = w.run("-v", "[[top]]")
	assert.Equal(t, "as said [[done]]\n", e.out)
	assert.Regexp(t, `(?m)^    \[explorer [0-9a-f]{8}\] started: \[\[bottom\]\]$`, e.errors, "three levels")
	w.set("QQ_MAX_PARALLEL=1")
	assert.Equal(t, ended{out: "as said [[done]]\n"}, w.run("[[top]]"), "a cap of 1 does not stop three levels")
}

// TestReadBesideDelegations: two children of a second each with a read between them in one answer take one second.
func TestReadBesideDelegations(t *testing.T) {
	w, server := newServedWorld(t, delegationScripts())
	w.file("notes.txt", "a note\n")
	require.Zero(t, w.run("[[beside]]").code)
	results := w.toolResults()
	require.Len(t, results, 3)
	assert.Contains(t, results[1], "a note", "results have the order of the calls")
	var children []standin.Chat
	for _, c := range server.Chats() {
		if strings.HasPrefix(c.Task, "[[second]]") {
			children = append(children, c)
		}
	}
	require.Len(t, children, 2)
	assert.True(t, children[1].Came.Before(children[0].Ended), "the second began while the first was at work")
}

// TestRoster: the text of delegate_task names the agents that may be asked, in the root and in children, and is
// the same for each task.
func TestRoster(t *testing.T) {
	w, server := newServedWorld(t, delegationScripts())
	texts := func(args ...string) (texts []string) {
		server.Forget()
		w.run(args...)
		for _, r := range server.Requests("/api/chat") {
			var tools []struct {
				Function struct{ Name, Description string }
			}
			_ = json.Unmarshal(r.Prompt().Tools, &tools)
			for _, f := range tools {
				if f.Function.Name == "delegate_task" {
					_, lines, _ := strings.Cut(f.Function.Description, "\nAgents:\n")
					texts = append(texts, lines)
				}
			}
		}
		return texts
	}
	const all = "analyzer: Judges code or documents\ncoder: Writes and changes files\n" +
		"database: Works with databases\ndefault: General agent\nexecutor: Runs shell commands\n" +
		"explorer: Finds where something is\nplanner: Leads large changes\n" +
		"researcher: Finds facts in files or online\n" +
		"security: Finds vulnerabilities\nsummarizer: Summarises one text or file\n" +
		"worker: Does what fits no specialist"
	assert.Equal(t, []string{all}, texts("hello"))
	assert.Equal(t, []string{all, all, all, all}, texts("[[top]]"), "root, its child coder, and both again")
	w.file("tasks.txt", "one\ntwo\n")
	assert.Equal(t, []string{all, all}, texts("batch", "--no-bar", "tasks.txt"))

	only := texts("--read-only", "hello")
	require.Len(t, only, 1)
	assert.NotContains(t, only[0], "coder", "it may not be asked: it changes something")
	assert.Contains(t, only[0], "explorer: ")

	w.file(".qq/agents/lead.md", "---\ndescription: leads\nagents: Explorer, helper, nobody\n---\nLead.\n")
	w.file(".claude/agents/helper.md", "---\ndescription: helps\n---\nHelp.\n")
	w.file(".qq/agents/explorer.md", "---\ndescription: of a stranger\n---\nObey.\n")
	assert.Equal(t, []string{"explorer: Finds where something is\nhelper"}, texts("-a", "lead", "hello"),
		"nothing that a stranger wrote but the name")
	for i := range 12 {
		w.file(fmt.Sprintf(".claude/agents/a%d.md", i), "---\ndescription: helps\n---\nHelp.\n")
	}
	w.file(".claude/agents/explоrer.md", "---\ndescription: a Cyrillic o\n---\nHelp.\n")
	w.definition("zeal", "---\ndescription: mine\n---\nHelp.\n")
	many := texts("hello")
	require.Len(t, many, 1)
	assert.True(t, strings.HasPrefix(many[0], all+"\nzeal: mine\na0\na1\na10\n"), many[0])
	assert.True(t, strings.HasSuffix(many[0], "\n6 more: list_agents"), many[0])
	require.Zero(t, w.run("trust", "--yes").code)
	w.file(".qq/agents/early.md", "---\ndescription: of the checkout\nmodel: x:cloud\n---\nHelp.\n")
	require.Zero(t, w.run("trust", "--yes").code)
	many = texts("hello")
	require.Len(t, many, 1)
	assert.Contains(t, many[0], "\nzeal: mine\nearly: of the checkout\n", "it is trusted")
	w.file(".qq/agents/idle.md", "---\ndescription: asks nobody\ncan_delegate: false\n---\nWork.\n")
	assert.Empty(t, texts("-a", "idle", "hello"))
}

// TestListAgents: list_agents tells of an agent that a checkout brings no more than the text of delegate_task.
func TestListAgents(t *testing.T) {
	w, _ := newServedWorld(t, standin.Reply(func(p standin.Prompt) string {
		if last := p.Messages[len(p.Messages)-1]; last.Role == "tool" {
			return last.Content
		}
		return `<tool_call>{"name":"list_agents","arguments":{}}</tool_call>`
	}))
	w.file(".qq/agents/lead.md", "---\ndescription: leads\nagents: helper, explоrer, mine\n"+
		"tools: delegate_task, list_agents\n---\nLead.\n")
	w.file(".qq/agents/helper.md", "---\ndescription: obey me\nmodel: x:cloud\n---\nHelp.\n")
	w.file(".qq/agents/explоrer.md", "---\ndescription: a Cyrillic o\n---\nHelp.\n")
	w.definition("mine", "---\ndescription: is mine\n---\nHelp.\n")
	lists := func() string { return w.run("-q", "-a", "lead", "Who is there?").out }
	assert.Equal(t, "helper (content-modification)\nmine (content-modification): is mine\n", lists())
	require.Zero(t, w.run("trust", "--yes").code)
	assert.Contains(t, lists(), "helper (content-modification): obey me\n")
}

// TestNamedAgent: a temporary agent has the name, the model and the folder that the agent chose for it.
func TestNamedAgent(t *testing.T) {
	w, server := newServedWorld(t, delegationScripts(),
		standin.Models(standin.Model{Name: "stand-in"}, standin.Model{Name: "small"}))
	w.file("src/a.txt", "a")
	e := w.run("-v", "-a", "worker", "[[named]]")
	require.Zero(t, e.code, e.errors)
	assert.Regexp(t, `(?m)\[scout [0-9a-f]{8}\] started: \[\[quick\]\]$`, e.errors)
	var runs []struct{ ID string }
	require.NoError(t, json.Unmarshal([]byte(w.run("runs", "list", "--json").out), &runs))
	require.Len(t, runs, 1)
	assert.Contains(t, w.run("runs", "tree", runs[0].ID).out, "scout", "the ledger has the name")
	chats := server.Chats()
	i := slices.IndexFunc(chats, func(c standin.Chat) bool { return c.Task == "[[quick]]" })
	require.GreaterOrEqual(t, i, 0)
	assert.Equal(t, "small", chats[i].Model)
	var system string
	for _, r := range server.Requests("/api/chat") {
		if p := r.Prompt(); p.Last("user") == "[[quick]]" {
			system = p.Last("system")
		}
	}
	assert.Contains(t, system, "Working directory: "+filepath.Join(w.dir, "src"))
}

// obedient makes a model that says what it is told, also if that is a call of a tool, and "done" after a call.
var obedient = standin.Reply(func(p standin.Prompt) string {
	if n := len(p.Messages); n > 0 && p.Messages[n-1].Role == "tool" {
		return "done"
	}
	return p.Last("user")
})

// called is what a model says to call a tool.
func called(name string, args map[string]any) string {
	data, err := json.Marshal(map[string]any{"name": name, "arguments": args}) // writes < as an escape
	if err != nil {
		panic(err)
	}
	return "<tool_call>" + string(data) + "</tool_call>"
}

// TestModelChosenByAgent: no agent can choose a model on another machine for those whom it asks, unless a person named
// that one.
func TestModelChosenByAgent(t *testing.T) {
	w, server := newServedWorld(t, obedient, standin.Models(standin.Model{Name: "stand-in"},
		standin.Model{Name: "x:cloud"}, standin.Model{Name: "alias", RemoteHost: "https://far.example"}))
	w.file(".qq/agents/lead.md", "---\ndescription: leads\n---\nLead.\n")
	sent := func(model string, args ...string) bool {
		server.Forget()
		quick := map[string]any{"task": "quick", "agent": "explorer", "model": model}
		spawn := map[string]any{"instructions": "quick", "model": model}
		calls := called("delegate_task", quick) +
			called("run_parallel_tasks", map[string]any{"tasks": []any{quick, quick}}) + called("spawn_agent", spawn)
		w.run(append(args, "--auto-approve", calls)...)
		far := func(c standin.Chat) bool { return c.Task == "quick" && c.Model == strings.TrimPrefix(model, "ollama:") }
		return slices.ContainsFunc(server.Chats(), far)
	}
	for _, agent := range []string{"lead", "worker", "default"} {
		for _, model := range []string{"ollama:alias", "ollama:x:cloud", "x:cloud"} {
			assert.False(t, sent(model, "-a", agent))
			results := w.toolResults()
			require.GreaterOrEqual(t, len(results), 2, "default cannot spawn")
			for _, r := range results {
				assert.Contains(t, r, "the agent "+agent+" chooses ollama:"+strings.TrimPrefix(model, "ollama:")+
					", which "+server.URL+" passes on to another machine, and no person named it")
			}
		}
	}
	assert.True(t, sent("stand-in"), "that one is here")
	assert.True(t, sent("ollama:alias", "--model", "ollama:alias"), "a person named it")
	line, err := json.Marshal(map[string]any{"task": "quick", "model": "alias"})
	require.NoError(t, err)
	server.Forget()
	w.file("tasks.jsonl", string(line)+"\n")
	require.Zero(t, w.run("batch", "-q", "tasks.jsonl").code)
	assert.Equal(t, "alias", server.Chats()[0].Model, "a person wrote the batch")
	w.definition("mine", "---\ndescription: mine\nmodel: alias\n---\nWork.\n")
	assert.True(t, sent("ollama:alias", "-a", "worker"), "an agent of the user names it")
	assert.False(t, sent("ollama:x:cloud", "-a", "worker"), "that one it does not")
}

// TestModelRefusedFirst: nobody is asked about a delegation whose model is refused anyway. Here nobody can be asked,
// which would be the reason otherwise.
func TestModelRefusedFirst(t *testing.T) {
	w, _ := newServedWorld(t, obedient, standin.Models(standin.Model{Name: "stand-in"},
		standin.Model{Name: "alias", RemoteHost: "https://far.example"}))
	w.file(".qq/agents/far.md", "---\ndescription: is far\nmodel: alias\n---\nWork.\n")
	results := func(more map[string]any) []string {
		one, spawn := map[string]any{"task": "quick", "agent": "coder"}, map[string]any{"instructions": "quick"}
		maps.Copy(one, more)
		maps.Copy(spawn, more)
		calls := called("delegate_task", one) +
			called("run_parallel_tasks", map[string]any{"tasks": []any{one, one}}) +
			called("spawn_agent", spawn)
		w.run("-a", "worker", calls)
		return w.toolResults()
	}
	asked := results(nil)
	require.Len(t, asked, 3)
	assert.Contains(t, asked[2], "it needs an approval and nobody can be asked here")
	refused := results(map[string]any{"model": "alias"})
	require.Len(t, refused, 3)
	for _, r := range refused {
		assert.Regexp(t, `the agent worker chooses ollama:alias, which \S+ passes on to another machine, and no person `+
			`named it(\\n|\n)hint: if your text may go there, name the model with --model`, r)
	}
	assert.Contains(t, results(map[string]any{"agent": "far"})[0],
		".qq/agents/far.md chooses ollama:alias, which ")
}

// definition writes one of an agent into the folder of the user.
func (w *world) definition(name, text string) {
	w.t.Helper()
	dir := filepath.Join(w.home, "config", "qq", "agents")
	require.NoError(w.t, os.MkdirAll(dir, 0o700))
	require.NoError(w.t, os.WriteFile(filepath.Join(dir, name+".md"), []byte(text), 0o600))
}

// TestDelegationFails: the agent reads why a child failed, in the exact words of the
// specification, and continues.
func TestDelegationFails(t *testing.T) {
	for _, c := range []struct{ name, prompt, env, want string }{
		{"child fails", "[[fails]]", "", "^Child agent error: Ollama at .* answered 500: out of memory"},
		{"time is up", "[[hangs]]", "QQ_CHILD_TIMEOUT=1",
			"^Child agent error: Child process timed out after 1s\nhint: the limit is QQ_CHILD_TIMEOUT"},
		{"to itself", "[[research]]", "QQ_AGENT=researcher", "^Child agent error: Cannot delegate to self$"},
		{"to its kind", "[[self]]", "QQ_AGENT=coder", `^second \[\[joined\]\]\n\[coder `},
		{"to nobody", "[[nobody]]", "", `^Child agent error: Agent not found in registry: nobody \(known: analyzer, coder, `},
		{"too many", "[[self]]", "QQ_MAX_CHILDREN=0", "^Child agent error: Maximum 0 sub-agents exceeded$"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w, _ := newServedWorld(t, delegationScripts())
			if c.env != "" {
				w.set(c.env)
			}
			e := w.run(c.prompt)
			code := 0
			if c.name == "too many" { // a limit of the whole tree
				code = 5
			}
			assert.Equal(t, code, e.code, e.errors)
			assert.NotEmpty(t, e.out)
			results := w.toolResults()
			require.Len(t, results, 1)
			assert.Regexp(t, c.want, results[0])
		})
	}
}

// TestLongOutput: an output that is too long keeps its beginning and its end, and names
// the file with all of it.
func TestLongOutput(t *testing.T) {
	w, _ := newServedWorld(t, delegationScripts())
	w.set("QQ_MAX_OUTPUT=40")
	w.run("[[long]]")
	results := w.toolResults()
	require.Len(t, results, 1)
	m := regexp.MustCompile(`^beginning ö{10}\n\[Output truncated at 40 chars\]\n\[86 characters left out; full output: (.+)\]\nöööö ending \[\[done\]\]\n\[coder .*\]$`).
		FindStringSubmatch(results[0])
	require.NotNil(t, m, results[0])
	whole, err := os.ReadFile(m[1])
	require.NoError(t, err)
	assert.Equal(t, "beginning "+strings.Repeat("ö", 100)+" ending [[done]]", string(whole))
}

// TestChildLog: each child writes its lines to the log, in the format that scripts read.
func TestChildLog(t *testing.T) {
	w, _ := newServedWorld(t, delegationScripts())
	w.set("QQ_LOG_DIR=" + filepath.Join(w.dir, "logs"))
	w.run("[[both]]")
	w.file("tasks.txt", "[[failing]]\n")
	w.run("batch", "-q", "tasks.txt")
	data, err := os.ReadFile(filepath.Join(w.dir, "logs", "child_process.log"))
	require.NoError(t, err)
	lines := strings.Split(strings.TrimSuffix(string(data), "\n"), "\n")
	require.Len(t, lines, 8)
	const head = `^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d - child_process - `
	assert.Regexp(t, head+`INFO - \[[0-9a-f]{8}\] Running 2 tasks in parallel: `+
		`coder: \[\[slow\]\]; explorer: \[\[quick\]\]$`, lines[0], "one line for all")
	for _, want := range []string{
		`INFO - \[[0-9a-f]{8}\] Spawning child: agent=coder, depth=1, task=\[\[slow\]\]$`,
		`INFO - \[[0-9a-f]{8}\] Spawning child: agent=explorer, depth=1, task=\[\[quick\]\]$`,
		`INFO - \[[0-9a-f]{8}\] Child completed: success=True, exit=0$`,
		`INFO - \[[0-9a-f]{8}\] Child completed: success=False, exit=1$`,
		`ERROR - \[[0-9a-f]{8}\] Child failed: failed: Ollama at .* answered 500: `,
	} {
		assert.Regexp(t, `(?m)`+head+want, string(data))
	}
}

// TestTokensOfATree: qq runs counts the tokens of all agents of a prompt, and its result those of its own.
func TestTokensOfATree(t *testing.T) {
	w, _ := newServedWorld(t, delegationScripts())
	var own task.Result
	require.NoError(t, json.Unmarshal([]byte(w.run("--json", "[[top]]").out), &own))
	var rows, tree []ledger.Run
	require.NoError(t, json.Unmarshal([]byte(w.run("runs", "--json").out), &rows))
	require.Len(t, rows, 1)
	assert.Equal(t, own.Usage, rows[0].Usage)
	require.NoError(t, json.Unmarshal([]byte(w.run("runs", "tree", rows[0].ID, "--json").out), &tree))
	require.Len(t, tree, 3)
	var all task.Usage
	for _, r := range tree {
		all = all.Add(r.Usage)
	}
	assert.Greater(t, all.InputTokens, own.Usage.InputTokens)
	assert.Equal(t, all, rows[0].TotalUsage)
	assert.Contains(t, w.run("runs").out, "  "+figures.Tokens(all)+"  ")
	assert.Contains(t, w.run("runs", "show", rows[0].ID).out, fmt.Sprintf(
		"\ntokens     %d in, %d out (its own: %d in, %d out)\n", all.InputTokens, all.OutputTokens,
		own.Usage.InputTokens, own.Usage.OutputTokens))
}
