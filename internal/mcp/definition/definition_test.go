package definition

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qq/pkg/task"
)

// environ is an environment of a test.
type environ map[string]string

func (e environ) Lookup(name string) (string, bool) {
	v, ok := e[name]
	return v, ok
}

// one parses a file with one server, x.
func one(t *testing.T, definition string) (Server, File) {
	t.Helper()
	f, err := Parse([]byte(`{"mcpServers": {"x": `+definition+`}}`), ".mcp.json")
	require.NoError(t, err)
	if len(f.Servers) == 0 {
		return Server{}, f
	}
	return f.Servers[0], f
}

// TestParse reads a file as other agent programs write it.
func TestParse(t *testing.T) {
	f, err := Parse([]byte(`{
  "mcpServers": {
    "files": {"type": "stdio", "command": "npx", "args": ["-y", "server", 8080, true], "env": {"A": "${B}", "PORT": 1},
      "cwd": "sub", "timeout": 5},
    "far": {"type": "http", "url": "https://example.com/mcp", "headers": {"Authorization": "Bearer ${TOKEN}"}},
    "short": {"url": "http://127.0.0.1:9/"},
    "nothing": {"command": "x", "args": null, "env": null, "headers": null}
  },
  "inputs": []
}`), ".mcp.json")
	require.NoError(t, err)
	assert.Equal(t, []Server{
		{Name: "files", Command: "npx", Args: []string{"-y", "server", "8080", "true"}, Dir: "sub",
			Env: map[string]string{"A": "${B}", "PORT": "1"}, From: ".mcp.json"},
		{Name: "far", URL: "https://example.com/mcp", From: ".mcp.json",
			Headers: map[string]string{"Authorization": "Bearer ${TOKEN}"}},
		{Name: "short", URL: "http://127.0.0.1:9/", From: ".mcp.json"},
		{Name: "nothing", Command: "x", From: ".mcp.json"},
	}, f.Servers)
	assert.Empty(t, f.Wrong)
	assert.Equal(t, []string{`.mcp.json: "timeout" of the MCP server files does nothing here`,
		`.mcp.json: "inputs" does nothing here`}, f.Warnings)
}

// TestWrongServer: a server that is wrong says so to who names it, with what to do, and harms no other.
func TestWrongServer(t *testing.T) {
	for definition, want := range map[string]string{
		`3`:                                                     "it must be an object",
		`{}`:                                                    "it has no command and no url",
		`{"command": "a", "url": "http://a"}`:                   "it has a command and a url",
		`{"command": 3}`:                                        `"command" must be a text`,
		`{"command": "a", "args": "b"}`:                         `"args" must be a list of texts`,
		`{"command": "a", "args": [["b"]]}`:                     `"args" must be a list of texts`,
		`{"command": "a", "args": [1.10]}`:                      `"args" must be a list of texts`,
		`{"command": "a", "args": [null]}`:                      `"args" must be a list of texts`,
		`{"command": "a", "env": []}`:                           `"env" must be an object of texts, each name once`,
		`{"command": "a", "env": {"B": {}}}`:                    `"env" must be an object of texts, each name once`,
		`{"command": "a", "env": {"B": "1", "B": "2"}}`:         `"env" must be an object of texts, each name once`,
		`{"command": "a", "env": {"B=C": "1"}}`:                 `"B=C" is no name of a variable`,
		`{"command": "a", "command": "b"}`:                      `it has "command" twice`,
		`{"command": "a\u0000b"}`:                               "it has a zero byte",
		`{"command": "a", "headers": {"A": "b"}}`:               "it has a command: nothing is sent to an address",
		`{"url": "http://a", "args": ["b"]}`:                    "it has a url: no program is started for it",
		`{"type": "sse", "url": "http://a"}`:                    "the transport sse is an old one that qq does not speak",
		`{"type": "ws", "url": "ws://a"}`:                       `qq does not speak its type "ws"`,
		`{"type": "http", "command": "a"}`:                      "its type http is not that of the rest",
		`{"type": "stdio", "url": "http://a"}`:                  "its type stdio is not that of the rest",
		`{"url": "file:///etc/passwd"}`:                         "its url is none",
		`{"url": "http://"}`:                                    "its url is none",
		`{"url": "http://me:secret@a/"}`:                        "its url has a user or a password in it",
		`{"url": "http://a", "headers": {"Host": "b"}}`:         `the header "Host" cannot be sent`,
		`{"url": "http://a", "headers": {"A": "b\r\nC: d"}}`:    `the header "A" cannot be sent`,
		`{"url": "http://a", "headers": {"A:": "b"}}`:           `the header "A:" cannot be sent`,
		`{"command": "` + strings.Repeat("a", maxText+1) + `"}`: "it has a text of more than 32768 bytes",
		`{"command": "a", "args": [` + strings.Repeat("1,", 1000) + `1]}`: "it has more than 1000 arguments, variables " +
			"or headers",
	} {
		s, f := one(t, definition)
		require.Error(t, f.Wrong["x"], task.Shorten(definition, 80))
		problem, hint := task.Explain(f.Wrong["x"])
		assert.Equal(t, `MCP server "x" of .mcp.json: `+want, problem)
		assert.NotEmpty(t, hint, want)
		assert.Zero(t, s)
	}
	f, err := Parse([]byte(`{"mcpServers": {"bad": {}, "good": {"command": "a"}}}`), ".mcp.json")
	require.NoError(t, err)
	assert.Len(t, f.Servers, 1)
	assert.Len(t, f.Wrong, 1)
}

// TestWrongName: what a name may be, and that it is spelled out whatever it is.
func TestWrongName(t *testing.T) {
	for _, name := range []string{"", "a b", "a.b", "../a", "ä", "\u202e", "\x1b[2J", strings.Repeat("a", 33)} {
		data, err := json.Marshal(map[string]any{"mcpServers": map[string]any{name: map[string]any{"command": "a"}}})
		require.NoError(t, err)
		f, err := Parse(data, ".mcp.json")
		require.NoError(t, err)
		assert.Empty(t, f.Servers, "%q", name)
		require.Len(t, f.Wrong, 1, "%q", name)
		for _, err := range f.Wrong {
			assert.ErrorContains(t, err, "a name has at most 32 plain characters")
			assert.NotContains(t, err.Error(), "\x1b")
			assert.NotContains(t, err.Error(), "\u202e")
		}
	}
	assert.True(t, ValidName("Git-Hub_2"))
}

func TestWrongFile(t *testing.T) {
	many := `{"mcpServers": {`
	for i := range maxServers {
		many += fmt.Sprintf(`"s%d": {"command": "a"}, `, i)
	}
	for data, want := range map[string]string{
		"":                                       ".mcp.json: line 1 is not JSON: unexpected end of JSON input",
		"{\n\"mcpServers\": {,}}":                ".mcp.json: line 2 is not JSON: invalid character ',' looking",
		"[]":                                     ".mcp.json must be an object",
		"{}":                                     `.mcp.json has no "mcpServers"`,
		`{"mcpServers": []}`:                     `.mcp.json: "mcpServers" must be an object`,
		`{"mcpServers": {}} {}`:                  ".mcp.json: line 1 is not JSON: invalid character '{' after top-level value",
		`{"mcpServers":{},"mcpServers":{}}`:      `.mcp.json has "mcpServers" twice`,
		`{"mcpServers": {"a": {}, "a": {}}}`:     `.mcp.json: "mcpServers" has "a" twice`,
		"{\"mcpServers\": \"\xff\"}":             ".mcp.json: is not UTF-8",
		many + `"last": {}}}`:                    `.mcp.json: "mcpServers" has more than 100 servers`,
		"{" + strings.Repeat(" ", MaxFile) + "}": ".mcp.json has more than 1048576 bytes",
		strings.Repeat("[", 100_000):             ".mcp.json: line 1 is not JSON: invalid character '['",
	} {
		f, err := Parse([]byte(data), ".mcp.json")
		require.Error(t, err, task.Shorten(data, 80))
		problem, hint := task.Explain(err)
		assert.Contains(t, problem, want)
		assert.NotEmpty(t, hint)
		assert.Empty(t, f.Servers)
	}
	_, err := Parse(nil, "sub\x1b[2J/.mcp.json")
	assert.NotContains(t, err.Error(), "\x1b")
}

func TestExpand(t *testing.T) {
	env := environ{"A": "one", "EMPTY": "", "HOST": "localhost:9", "LOOP": "${A}", "USER": "me@elsewhere"}
	for text, want := range map[string]string{
		"${A}": "one", "x${A}y${A}": "xoney" + "one", "${EMPTY}": "", "${EMPTY:-d}": "d", "${NONE:-d e}": "d e",
		"${NONE:-}": "", "$A": "$A", "${": "${", "${A": "${A", "${1}": "${1}", "${a b}": "${a b}", "$${A}": "$one",
		"${LOOP}": "${A}", "${${A}}": "${one}",
	} {
		s, err := Server{Name: "x", Command: "c", Args: []string{text}}.Expand(env)
		require.NoError(t, err, text)
		assert.Equal(t, []string{want}, s.Args, text)
	}
	written := Server{Name: "x", URL: "http://${HOST}/mcp", Headers: map[string]string{"B": "${A}"}, From: "f"}
	s, err := written.Expand(env)
	require.NoError(t, err)
	assert.Equal(t, "http://localhost:9/mcp with the header B: one", s.Line())
	assert.Equal(t, "${A}", written.Headers["B"], "what was written stays")
	assert.NotEqual(t, written.Sum(), s.Sum())

	large := environ{"A": strings.Repeat("a", 100_000), "EMPTY": ""}
	for want, s := range map[string]Server{
		"the variable NONE is not set":             {Command: "c", Args: []string{"${NONE}${OTHER}"}},
		"its command or url is empty without them": {Command: "${EMPTY}"},
		"its url is none":                          {URL: "${EMPTY}a"},
		"it has a text of more than 32768 bytes":   {Command: "c", Dir: strings.Repeat("${A}", 8000)},
		"its url has a variable that is none":      {URL: "http://a/${b c}"},
		`the header "B" cannot be sent`:            {URL: "http://a", Headers: map[string]string{"B": "${CR}"}},
		"its url has a user or a password in it":   {URL: "http://${USER}/"},
	} {
		s.Name, s.From = "x", ".mcp.json"
		env := maps.Clone(large)
		maps.Copy(env, environ{"CR": "a\r\nb", "USER": "me@elsewhere"})
		_, err := s.Expand(env)
		require.Error(t, err, want)
		problem, hint := task.Explain(err)
		assert.Equal(t, `MCP server "x" of .mcp.json: `+want, problem)
		assert.NotEmpty(t, hint)
	}
}

// TestSum: the sum is that of what is started; no two different servers have the same.
func TestSum(t *testing.T) {
	base := Server{Name: "x", Command: "c", Args: []string{"a", "b"}, Env: map[string]string{"A": "1", "B": "2"}}
	same := base
	same.Name, same.From, same.Env = "y", "f", map[string]string{"B": "2", "A": "1"}
	assert.Equal(t, base.Sum(), same.Sum())
	assert.Equal(t, Server{Command: "c"}.Sum(), Server{Command: "c", Args: []string{}, Env: map[string]string{}}.Sum())
	sums := map[string]Server{}
	for _, s := range []Server{base, {Command: "c", Args: []string{"a b"}}, {Command: "c", Args: []string{"a", "b"}},
		{Command: "c", Args: []string{`a" "b`}}, {Command: "c a", Args: []string{"b"}}, {Command: "c"}, {URL: "c"},
		{Command: "c", Dir: "d"}, {Command: "c", Env: map[string]string{"A": `1" "B":"2`}}, {Command: "c\xff"},
		{Command: "c\uFFFD"}, {Command: `c\xff`}, {URL: "c", Headers: map[string]string{"A": "1"}}} {
		if other, taken := sums[s.Sum()]; taken {
			t.Errorf("%+v has the sum of %+v", s, other)
		}
		sums[s.Sum()] = s
	}
}

// TestLine: a person sees all of what is started, and nothing of it moves the cursor.
func TestLine(t *testing.T) {
	for want, s := range map[string]Server{
		`A=${B} C='d e' npx -y 'it'\''s' '' in the folder sub`: {Command: "npx", Args: []string{"-y", "it's", ""},
			Env: map[string]string{"C": "d e", "A": "${B}"}, Dir: "sub"},
		`sh -c "rm\n\x1b[2J\u202e"`:                            {Command: "sh", Args: []string{"-c", "rm\n\x1b[2J\u202e"}},
		`https://a/b?c=d&e=f with the header K: 'Bearer ${T}'`: {URL: "https://a/b?c=d&e=f", Headers: map[string]string{"K": "Bearer ${T}"}},
	} {
		assert.Equal(t, want, s.Line())
	}
}

func TestResolve(t *testing.T) {
	checkout, err := Parse([]byte(`{"mcpServers": {"a": {"command": "theirs"}, "b": {"command": "b"}, "wrong": {}}}`),
		".mcp.json")
	require.NoError(t, err)
	user, err := Parse([]byte(`{"mcpServers": {"a": {"command": "mine"}, "c": {"url": "http://c"}, "wrong": {"command": "right"}}}`),
		"mcp.json")
	require.NoError(t, err)
	for _, test := range []struct {
		name, servers      string
		distrust, inAgent  bool
		want               []string // from and line of each
		problems, warnings []string
	}{
		{name: "none"},
		{name: "null", servers: "null"},
		{name: "names", servers: `["c", "a", "b"]`, want: []string{"mcp.json http://c", ".mcp.json theirs", ".mcp.json b"}},
		{name: "checkout without trust", servers: `["a", "b"]`, distrust: true, want: []string{"mcp.json mine"},
			problems: []string{`MCP server "b" of .mcp.json: nobody trusts that file yet`}},
		{name: "wrong", servers: `["wrong"]`, problems: []string{`MCP server "wrong" of .mcp.json: it has no command ` +
			`and no url`}},
		{name: "wrong without trust", servers: `["wrong"]`, distrust: true, want: []string{"mcp.json right"}},
		{name: "unknown", servers: `["d\u001b"]`,
			problems: []string{`agent names the MCP server "d\x1b", which is not defined`}},
		{name: "definitions", servers: `{"a": {"command": "own", "x": 1}, "bad name": {"command": "y"}}`,
			want:     []string{"agent own"},
			problems: []string{`MCP server "bad name" of agent: a name has at most 32 plain characters`},
			warnings: []string{`agent: "x" of the MCP server a does nothing here`}},
		{name: "definitions without trust", servers: `["c", {"e": {"command": "own"}}]`, inAgent: true,
			want: []string{"mcp.json http://c"}, problems: []string{`MCP server "e" of agent: nobody trusts that file yet`}},
		{name: "mixed", servers: `["c", {"e": {"command": "own"}, "f": {"url": "https://f"}}]`,
			want: []string{"mcp.json http://c", "agent own", "agent https://f"}},
		{name: "twice", servers: `["c", "c", {"c": {"command": "own"}}]`, want: []string{"mcp.json http://c"},
			problems: []string{`mcp_servers of agent has "c" twice`, `mcp_servers of agent has "c" twice`}},
		{name: "number", servers: `[3]`, problems: []string{"mcp_servers of agent: an entry that is no name must be an " +
			"object"}},
		{name: "null in it", servers: `[null]`, problems: []string{"mcp_servers of agent: an entry that is no name must " +
			"be an object"}},
		{name: "no JSON", servers: `[`, problems: []string{"mcp_servers of agent line 1 is not JSON: unexpected end of " +
			"JSON input"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			theirs := checkout
			theirs.Distrust = test.distrust
			servers, problems, warnings := Resolve(Agent{From: "agent", Servers: json.RawMessage(test.servers),
				Distrust: test.inAgent}, theirs, user)
			var got, said []string
			for _, s := range servers {
				got = append(got, s.From+" "+s.Line())
			}
			for _, err := range problems {
				problem, hint := task.Explain(err)
				said = append(said, problem)
				assert.NotEmpty(t, hint)
			}
			assert.Equal(t, test.want, got)
			assert.Equal(t, test.problems, said)
			assert.Equal(t, test.warnings, warnings)
		})
	}
	_, problems, _ := Resolve(Agent{From: "agent", Servers: json.RawMessage(`["x"]`)}, checkout, user)
	require.Len(t, problems, 1)
	assert.ErrorContains(t, problems[0], "known here: a, b, c, wrong")

	names, err := json.Marshal(slices.Repeat([]string{"a"}, maxServers+1))
	require.NoError(t, err)
	_, problems, _ = Resolve(Agent{From: "agent", Servers: names}, user)
	assert.ErrorContains(t, problems[len(problems)-1], "more than 100 servers")
}

// FuzzParse: whatever a file or an agent says, it is refused, or all of it can be shown and used.
func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"mcpServers": {"a": {"command": "b", "args": ["${C:-d}", 1], "env": {"E": "\u202e"}}, "f": {}}}`))
	f.Add([]byte(`{"mcpServers": {"a": {"type": "http", "url": "https://${H}/x", "headers": {"K": "v"}, "k": 1}}}`))
	f.Add([]byte(`["a", {"b": {"command": "c"}}]`))
	f.Add([]byte(`{"a": 3, "a": {}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		file, err := Parse(data, ".mcp.json")
		errs := []error{err}
		servers, problems, warnings := Resolve(Agent{From: "agent", Servers: data}, file)
		errs = append(errs, problems...)
		errs = append(errs, slices.Collect(maps.Values(file.Wrong))...)
		for _, s := range slices.Concat(file.Servers, servers) {
			_, err := s.Expand(environ{"A": "x", "H": "\x00\xff"})
			errs = append(errs, err)
			if !ValidName(s.Name) || (s.Command == "") == (s.URL == "") || s.check() != nil {
				t.Errorf("accepted: %+v", s)
			}
			shown(t, s.Line())
		}
		for _, err := range errs {
			if err != nil {
				problem, hint := task.Explain(err)
				shown(t, problem)
				shown(t, hint)
			}
		}
		for _, w := range append(warnings, file.Warnings...) {
			shown(t, w)
		}
	})
}

// shown fails the test if a terminal would do something else with text than show it.
func shown(t *testing.T, text string) {
	t.Helper()
	if strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) {
		t.Errorf("not printable: %q", text)
	}
}
