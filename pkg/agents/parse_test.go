package agents

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// define builds a definition from its front matter.
func define(front string) []byte {
	return []byte("---\n" + front + "\n---\nBe good.\n")
}

func TestParseEveryKey(t *testing.T) {
	a, err := Parse("file-name", define(`name: full
description: Does it all
tools:
  - read_file
  - WebSearch
disallowedTools: Bash, WebFetch
model: ollama:tiny
role: Content-Modification
maxTurns: 7
timeout: 90s
idle_timeout: 1.5
prompt_template: "Do {task}"
mcpServers:
  files: {command: serve, args: [a, 1]}
canDelegate: false
agents: explorer, analyzer
schema:
  type: object
  required: [x]`))
	require.NoError(t, err)
	assert.Equal(t, "full", a.Name)
	assert.Equal(t, "Does it all", a.Description)
	assert.Equal(t, []string{"read_file", "web_search"}, a.Tools)
	assert.Equal(t, []string{"run_pty_cmd", "web_fetch"}, a.DisallowedTools)
	assert.Equal(t, "ollama:tiny", a.Model)
	assert.Equal(t, Modifying, a.Role, "given, though the tools only look")
	assert.Equal(t, 7, a.MaxTurns)
	assert.Equal(t, 90*time.Second, a.Timeout)
	assert.Equal(t, 1500*time.Millisecond, a.IdleTimeout)
	assert.Equal(t, "Do {task}", a.PromptTemplate)
	assert.JSONEq(t, `{"files":{"command":"serve","args":["a",1]}}`, string(a.MCPServers))
	require.NotNil(t, a.CanDelegate)
	assert.False(t, *a.CanDelegate)
	assert.Equal(t, []string{"explorer", "analyzer"}, a.Agents)
	assert.JSONEq(t, `{"type":"object","required":["x"]}`, string(a.Schema))
	assert.Equal(t, "Be good.", a.Prompt)
	assert.Equal(t, []string{`line 14: "mcp_servers" does nothing in this version`}, a.Warnings)
	assert.Equal(t, a.Warnings, a.Harmless)
	assert.Equal(t, 14, a.Lines["mcpservers"])
}

// A warning is harmless unless the agent may do more than its author meant.
func TestHarmless(t *testing.T) {
	for front, harmless := range map[string]bool{
		"color: red": true, "mcp_servers: github": true,
		"tools: Read, Fly": true, "model: sonnet": true, "role: information-gathering\ntools: [write_file]": true,
		"tools:": false, "disallowedTools: Wrte": false, "disallowedTools: Bash(a:*b)": false,
		"role: information-gathring": false, "disalowedTools: run_pty_cmd": false, "dissallowed_tools: [Write]": false,
		"rol: information-gathering": false, "max_turn: 3": false, "maxturn: 3": false, "timout: 60": false,
		"idle-timout: 60": false, "hooks: {}": true, "mode: subagent": true, "skills: [a]": true,
		"permissionMode: plan": true, "temperature: 1": true, "memory: user": true, "background: true": true,
		"steps: 3": true, "target: x": true,
	} {
		a, err := Parse("x", define("description: d\n"+front))
		require.NoError(t, err)
		require.Len(t, a.Warnings, 1, front)
		assert.Equal(t, harmless, len(a.Harmless) == 1, front)
		assert.Regexp(t, "^line [34]: ", a.Warnings[0])
	}
	a, err := Parse("x", define("description: d\ndisalowedTools: run_pty_cmd\nfrobnicate: true"))
	require.NoError(t, err)
	assert.Equal(t, []string{`line 3: unknown key "disalowedTools": did you mean "disallowedTools"?`,
		`line 4: unknown key "frobnicate"`}, a.Warnings)
	a, err = Parse("x", define("description: d\nhooks:\n  PostToolUse: []\n  \"S\\e[2J\": []"))
	require.NoError(t, err)
	require.Len(t, a.Warnings, 1)
	assert.Contains(t, a.Warnings[0], `line 3: "hooks" are left out (PostToolUse):`)
	assert.NotContains(t, a.Warnings[0], "\x1b")
	for _, key := range keys {
		_, ok := new(parser).setter(squash(key))
		assert.True(t, ok, key)
	}
}

func TestParseForms(t *testing.T) {
	for _, test := range []struct {
		name, front string
		check       func(*testing.T, Agent)
	}{
		{"name of the file", "description: d", func(t *testing.T, a Agent) { assert.Equal(t, "stem", a.Name) }},
		{"no tools means all", "description: d", func(t *testing.T, a Agent) { assert.Nil(t, a.Tools) }},
		{"star means all", "tools: '*'", func(t *testing.T, a Agent) { assert.Nil(t, a.Tools) }},
		{"bare star means all", "tools: *", func(t *testing.T, a Agent) { assert.Nil(t, a.Tools) }},
		{"empty list means none", "tools: []", func(t *testing.T, a Agent) { assert.Equal(t, []string{}, a.Tools) }},
		{"a number that is a text stays it", `description: "012"`,
			func(t *testing.T, a Agent) { assert.Equal(t, "012", a.Description) }},
		{"timeout as a number in text", "timeout: '60'", func(t *testing.T,
			a Agent) {
			assert.Equal(t, time.Minute, a.Timeout)
		}},
		{"kebab-case", "max-turns: 3", func(t *testing.T, a Agent) { assert.Equal(t, 3, a.MaxTurns) }},
		{"inherit", "description: d\nmodel: inherit", func(t *testing.T, a Agent) {
			assert.Empty(t, a.Model)
			assert.Empty(t, a.Warnings)
		}},
		{"schema as JSON text", `schema: '{"type":"array"}'`,
			func(t *testing.T, a Agent) { assert.JSONEq(t, `{"type":"array"}`, string(a.Schema)) }},
		{"servers as text", "mcp_servers: github, linear ,",
			func(t *testing.T, a Agent) { assert.JSONEq(t, `["github","linear"]`, string(a.MCPServers)) }},
		{"one server as text", "mcpServers: github",
			func(t *testing.T, a Agent) { assert.JSONEq(t, `["github"]`, string(a.MCPServers)) }},
		{"servers as JSON text", `mcp_servers: '{"x":{"command":"y"}}'`,
			func(t *testing.T, a Agent) { assert.JSONEq(t, `{"x":{"command":"y"}}`, string(a.MCPServers)) }},
		{"servers as a list", "mcp_servers: [a, {b: {command: c}}]",
			func(t *testing.T, a Agent) { assert.JSONEq(t, `["a",{"b":{"command":"c"}}]`, string(a.MCPServers)) }},
		{"block text", "description: >\n  one\n  two", func(t *testing.T,
			a Agent) {
			assert.Equal(t, "one two", a.Description)
		}},
		{"colon in a value", "description: Use when: it hurts",
			func(t *testing.T, a Agent) { assert.Equal(t, "Use when: it hurts", a.Description) }},
		{"nothing in front", "", func(t *testing.T, a Agent) { assert.Equal(t, "Be good.", a.Prompt) }},
	} {
		t.Run(test.name, func(t *testing.T) {
			a, err := Parse("stem", define(test.front))
			require.NoError(t, err)
			test.check(t, a)
		})
	}
}

func TestParseMapsToolNames(t *testing.T) {
	a, err := Parse("x", define("description: d\ntools: Read, WRITE, edit, Glob, Grep, LS, Bash, WebFetch, "+
		"WebSearch, Task, read_file, mcp__db__query, ast_grep"))
	require.NoError(t, err)
	assert.Equal(t, []string{"read_file", "write_file", "edit_file", "list_files", "grep_file", "list_directory",
		"run_pty_cmd", "web_fetch", "web_search", "delegate_task", "mcp__db__query", "ast_grep"}, a.Tools)
	assert.Empty(t, a.Warnings)
}

// Restrictions as other agent programs write them.
func TestParseRestrictedTools(t *testing.T) {
	a, err := Parse("x",
		define("description: d\ntools: Read(./x), Bash(git log:*), Bash( npm run test ), Edit(/src/**), "+
			"Write, Write(a), WebFetch(domain:x.org), Read(.env), grep_file, Bash(git diff *)\n"+
			"disallowedTools: [\"Bash(rm:*)\", \"Read(./secret/**)\", \"WebFetch(*)\", Task]"))
	require.NoError(t, err)
	assert.Equal(t, []string{"read_file", "run_pty_cmd", "edit_file", "write_file", "web_fetch", "grep_file"}, a.Tools)
	assert.Equal(t, []string{"read_file(x)", "run_pty_cmd(git log *)", "run_pty_cmd(npm run test)", "edit_file(src/**)",
		"web_fetch(x.org)", "read_file(.env)", "run_pty_cmd(git diff *)"}, a.Within, "Write is given whole")
	assert.Equal(t, []string{"run_pty_cmd(rm *)", "read_file(secret/**)", "web_fetch", "delegate_task"},
		a.DisallowedTools)
	assert.Empty(t, a.Warnings)
	assert.True(t, a.Allows("run_pty_cmd"))
	assert.False(t, a.Allows("web_fetch"))

	a, err = Parse("x", define("description: d\nallowedTools: Bash(*), Read"))
	require.NoError(t, err)
	assert.Equal(t, []string{"run_pty_cmd", "read_file"}, a.Tools)
	assert.Empty(t, a.Within)
	_, err = Parse("x", define("description: d\ntools: Read\nallowed-tools: Bash"))
	require.ErrorContains(t, err, `"allowed-tools" is given twice`)
}

func TestParseNeverWidensRestrictedTools(t *testing.T) {
	a, err := Parse("x", define("description: d\ntools: Read, Bash(git log:*, git diff:*), Edit(~/x), Write(//etc/x), "+
		"Grep(src), Bash(), Bash(ls\ndisallowedTools: Write(~/secret/**), Grep(x)"))
	require.NoError(t, err)
	assert.Equal(t, []string{"read_file"}, a.Tools)
	assert.Equal(t, []string{"write_file", "grep_file"}, a.DisallowedTools)
	assert.Equal(t, []string{
		`line 3: tool "Bash(git log:*, git diff:*)" is left out: its pattern is not understood`,
		`line 3: tool "Edit(~/x)" is left out: its pattern is not understood`,
		`line 3: tool "Write(//etc/x)" is left out: its pattern is not understood`,
		`line 3: tool "Grep(src)" is left out: its pattern is not understood`,
		`line 3: tool "Bash()" is left out: its pattern is not understood`,
		`line 3: tool "Bash(ls" is left out: its pattern is not understood`,
		`line 4: tool "Write(~/secret/**)" is refused altogether: its pattern is not understood`,
		`line 4: tool "Grep(x)" is refused altogether: its pattern is not understood`,
	}, a.Warnings)
}

func TestParseWarns(t *testing.T) {
	for front, want := range map[string]string{
		"description: d\ncolour: red":                                     `line 3: unknown key "colour"`,
		"description: d\ntools: Read, Fly":                                `line 3: unknown tool "Fly" is left out`,
		"description: d\ntools:":                                          `line 3: "tools" is empty, which means every tool: write [] for none`,
		"description: d\nmodel: Sonnet":                                   `line 3: model "Sonnet" is not known here: the model of the run is used`,
		"description: d\nrole: philosopher":                               `line 3: unknown role "philosopher": taken as content-modification`,
		"description: d\nprompt_template: Be good":                        `line 3: the prompt_template has no {task}: every task gets the same prompt`,
		"description: d\nmodel: claude-opus-4-1":                          `line 3: model "claude-opus-4-1" is not known here: the model of the run is used`,
		"description: d\nmodel: sonnet[1m]":                               `line 3: model "sonnet[1m]" is not known here: the model of the run is used`,
		"description: d\ntools: Read, Write\nrole: information-gathering": `line 4: tool "write_file" changes something: an agent of the role information-gathering does not get it`,
		"tools: Read": `no description: other agents will not know when to ask this one`,
	} {
		a, err := Parse("x", define(front))
		require.NoError(t, err, front)
		assert.Equal(t, []string{want}, a.Warnings, front)
	}
}

func TestParseErrors(t *testing.T) {
	for _, test := range []struct{ name, data, want string }{
		{"number for text", "---\nname: x\ndescription: 42\n---\n", `line 3: "description" must be text`},
		{"list for text", "---\nname: [x]\n---\n", `line 2: "name" must be text`},
		{"text for turns", "---\nmax_turns: many\n---\n", `line 2: "max_turns" must be a whole number above 0`},
		{"no turns", "---\nmax_turns: 0\n---\n", `line 2: "max_turns" must be`},
		{"bad duration", "---\nname: x\n\ntimeout: soon\n---\n", `line 4: "timeout" must be seconds above 0`},
		{"negative duration", "---\ntimeout: -3\n---\n", `line 2: "timeout" must be`},
		{"endless duration", "---\nidleTimeout: 1e300\n---\n", `line 2: "idleTimeout" must be at most a year`},
		{"text for flag", "---\ncan_delegate: perhaps\n---\n", `line 2: "can_delegate" must be true or false`},
		{"map for list", "---\ntools: {a: b}\n---\n", `line 2: "tools" must be a list of names`},
		{"number in list", "---\ntools:\n- a\n- 3\n---\n", `"tools" must be a list of names`},
		{"number for servers", "---\nmcp_servers: 3\n---\n", `line 2: "mcp_servers" must be an object that JSON`},
		{"list for schema", "---\nschema: [a]\n---\n", `line 2: "schema" must be an object`},
		{"keys that JSON has not", "---\nschema: {1: a}\n---\n", `line 2: "schema" must be an object`},
		{"twice", "---\nmax_turns: 1\nmaxTurns: 2\n---\n", `line 3: "maxTurns" is given twice`},
		{"bad name", "---\nname: ../x\n---\n", `line 2: "name" must be letters, digits, - and _`},
		{"no mapping", "---\n- a\n---\n", `line 2: the front matter must be lines`},
		{"YAML that does not parse", "---\nname: x\ntools: [a\n---\n", `line 3: did not find expected ',' or ']'`},
		{"YAML that does not scan", "---\nname: x\ndescription: \"a\\q\"\n---\n",
			`line 3: found unknown escape character`},
		{"no front matter", "Just text", "line 1: no front matter"},
		{"no end", "---\nname: x\n", "line 1: the front matter does not end"},
		{"not text", "---\nname: \xff\n---\n", "is not UTF-8 text"},
		{"NUL", "---\nname: x\n---\na\x00b", "is not UTF-8 text"},
		{"huge", "---\nname: x\n---\n" + strings.Repeat("x", MaxSize), "is larger than 256 KiB"},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := Parse("x", []byte(test.data))
			assert.ErrorContains(t, err, test.want)
		})
	}
}

func TestParseEndsOfLines(t *testing.T) {
	want, err := Parse("x", []byte("---\nname: x\ndescription: |\n  a\n  b\n---\nOne.\n\nTwo.\n"))
	require.NoError(t, err)
	got, err := Parse("x", []byte("\ufeff---\r\nname: x\r\ndescription: |\r\n  a\r\n  b\r\n--- "+
		"\r\nOne.\r\n\r\nTwo.\r\n"))
	require.NoError(t, err)
	assert.Equal(t, want, got)
	assert.Equal(t, "One.\n\nTwo.", got.Prompt)
}

func TestParseBoundsAliases(t *testing.T) {
	bomb := "a: &a [x,x,x,x,x,x,x,x,x,x]\n"
	for c := 'b'; c < 'k'; c++ {
		prev := string(c - 1)
		bomb += string(c) + ": &" + string(c) + " [*" + strings.Repeat(prev+",*", 9) + prev + "]\n"
	}
	_, err := Parse("x", define(bomb+"schema: {x: *j}"))
	assert.ErrorContains(t, err, "aliases (*a) are not supported")
}

func TestPermissions(t *testing.T) {
	yes, no := true, false
	for _, test := range []struct {
		name    string
		agent   Agent
		allows  []string
		refuses []string
		role    string // that the tools say
		changes bool
	}{
		{"everything", Agent{}, []string{"write_file", "delegate_task", "anything"}, nil, Modifying, true},
		{"nothing", Agent{Tools: []string{}}, nil, []string{"read_file"}, Gathering, false},
		{"all refused", Agent{DisallowedTools: []string{"*"}}, nil, []string{"read_file", "delegate_task"}, Gathering,
			false},
		{"all but what is known to change", Agent{DisallowedTools: []string{"write_file", "create_file", "edit_file",
			"delete_file", "ast_grep_replace", "run_pty_cmd"}},
			[]string{"mcp__files__write"}, []string{"write_file"}, Modifying, true},
		{"looks", Agent{Tools: []string{"read_file", "web_fetch"}}, []string{"read_file"}, []string{"write_file"},
			Gathering, false},
		{"looks and talks", Agent{Tools: []string{"read_file", "send_message", "list_children"}},
			[]string{"send_message"}, nil, Gathering, false},
		{"refusal goes first", Agent{Tools: []string{"read_file", "write_file"},
			DisallowedTools: []string{"write_file"}},
			[]string{"read_file"}, []string{"write_file"}, Gathering, false},
		{"delegates", Agent{Tools: []string{"read_file", "delegate_task"}}, []string{"delegate_task"},
			[]string{"run_parallel_tasks"}, Modifying, false},
		{"makes agents", Agent{Tools: []string{"spawn_agent"}}, []string{"spawn_agent"}, nil, Modifying, false},
		{"runs commands", Agent{Tools: []string{"run_pty_cmd"}}, []string{"run_pty_cmd"}, nil, Modifying, true},
		{"delegation taken away", Agent{Tools: []string{"read_file", "delegate_task", "list_agents", "send_message"},
			CanDelegate: &no},
			[]string{"read_file", "send_message"}, []string{"delegate_task", "list_agents"}, Gathering, false},
		{"delegation given", Agent{Tools: []string{"read_file"}, CanDelegate: &yes},
			[]string{"run_parallel_tasks", "list_agents", "wait_children", "send_message"}, []string{"write_file"},
			Modifying, false},
		{"given, but refused", Agent{Tools: []string{"read_file"}, CanDelegate: &yes, DisallowedTools: []string{"*"}},
			nil, []string{"delegate_task"}, Gathering, false},
		{"a tool of a server", Agent{Tools: []string{"mcp__x__y"}}, []string{"mcp__x__y"}, nil, Modifying, true},
		{"gathering agents change no file", Agent{Role: Gathering,
			Tools: []string{"write_file", "run_pty_cmd", "delegate_task"}},
			[]string{"run_pty_cmd", "delegate_task"}, []string{"write_file"}, Modifying, false},
		{"not even with every tool", Agent{Role: Gathering}, []string{"read_file", "run_pty_cmd"},
			[]string{"write_file", "ast_grep_replace"}, Modifying, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			for _, n := range test.allows {
				assert.True(t, test.agent.Allows(n), n)
			}
			for _, n := range test.refuses {
				assert.False(t, test.agent.Allows(n), n)
				assert.NotContains(t, test.agent.Toolset(), n)
			}
			for _, n := range test.agent.Toolset() {
				assert.True(t, test.agent.Allows(n), n)
			}
			assert.Equal(t, test.role, test.agent.role())
			assert.Equal(t, test.changes, test.agent.Changes())
		})
	}
}

func TestToolset(t *testing.T) {
	assert.Len(t, KnownTools(), 21)
	assert.Equal(t, KnownTools(), Agent{}.Toolset())
	assert.Equal(t, []string{"read_file", "write_file", "mcp__x__y"},
		Agent{Tools: []string{"mcp__x__y", "write_file", "read_file"}}.Toolset())
	for _, k := range known {
		assert.NotEqual(t, unknown, kindOf(k.name), k.name)
		assert.Equal(t, k.name, canonical(strings.ToUpper(k.name)))
	}
}

func TestAllowsAgent(t *testing.T) {
	assert.True(t, Agent{}.AllowsAgent("any"))
	assert.False(t, Agent{Agents: []string{}}.AllowsAgent("any"))
	assert.True(t, Agent{Agents: []string{"code-reviewer"}}.AllowsAgent("Code_Reviewer"))
	assert.False(t, Agent{Agents: []string{"code-reviewer"}}.AllowsAgent("coder"))
}

func TestAgentSurvivesJSON(t *testing.T) {
	for _, front := range []string{"tools: []\nagents: []", "description: d",
		"tools: Read\ntimeout: 3\ncan_delegate: true\nschema: {type: object}"} {
		a, err := Parse("x", define(front))
		require.NoError(t, err)
		data, err := json.Marshal(a)
		require.NoError(t, err)
		var b Agent
		require.NoError(t, json.Unmarshal(data, &b))
		a.Harmless, a.Lines = nil, nil // about the file, which a child does not have
		assert.Equal(t, a, b)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(foreign))
	f.Add(define("tools: [a, b]\nschema: {x: [1, .inf, 2020-01-01, !!binary aGk=]}\ntimeout: 1e9"))
	f.Add(define("? [a]\n: b\n<<: {x: y}\nmcp_servers: [a]"))
	f.Add(define("a: &a [*a]"))
	f.Fuzz(func(t *testing.T, data []byte) {
		a, err := Parse("x", data)
		if err != nil {
			return
		}
		if !validName(a.Name) || a.Role != Gathering && a.Role != Modifying || a.Timeout < 0 || a.IdleTimeout < 0 ||
			a.MaxTurns < 0 {
			t.Fatalf("accepted %+v", a)
		}
		if a.Gathers() && a.Allows("write_file") || !a.Changes() && a.Allows("edit_file") {
			t.Fatalf("reads only, and writes: %+v", a)
		}
		if _, err := json.Marshal(a); err != nil {
			t.Fatal(err)
		}
	})
}

// A key that is nearly one which takes away is no remark: without it the agent
// has every tool.
func TestNearlyTools(t *testing.T) {
	_, err := Parse("x", []byte("---\nname: x\ndescription: d\ntool: Read\n---\nx\n"))
	require.EqualError(t, err, `line 4: unknown key "tool": did you mean "tools"? Without it more is allowed`)
}

// Every known key is one that a mistyped key is compared with.
func TestKeys(t *testing.T) {
	for _, key := range keys {
		_, ok := (&parser{}).setter(squash(key))
		assert.True(t, ok, key)
	}
	a, err := Parse("x", []byte("---\nmax_turn: 3\ndescripton: d\nzzz: 1\ndescription: d\n---\nx"))
	require.NoError(t, err)
	assert.Equal(t, []string{`line 2: unknown key "max_turn": did you mean "max_turns"?`,
		`line 3: unknown key "descripton": did you mean "description"?`, `line 4: unknown key "zzz"`}, a.Warnings)
	assert.Equal(t, "x.md:4: unknown key", Located("x.md", "line 4: unknown key"))
	assert.Equal(t, "x.md: no prompt", Located("x.md", "no prompt"))
}
