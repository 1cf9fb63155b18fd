package app

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qq/internal/standin"
	"qq/pkg/task"
)

// wrong is a mistake of a person.
type wrong struct {
	name  string
	args  []string
	stdin string // "" is nothing at all, as from /dev/null
	env   string
	want  string // what the problem says
}

// TestWrongStdout: an answer that can be written nowhere is an error before a model is asked.
func TestWrongStdout(t *testing.T) {
	w, server := newServedWorld(t)
	w.file("tasks.txt", "one\n")
	for _, args := range [][]string{{"hello"}, {"--json", "hello"}, {"batch", "tasks.txt"}, {"doctor"}, {"--help"}} {
		cmd := w.command(args...)
		null, err := os.Open(os.DevNull) // for reading
		require.NoError(t, err)
		var problems strings.Builder
		cmd.Stdout, cmd.Stderr = null, &problems
		require.Error(t, cmd.Run())
		require.NoError(t, null.Close())
		assert.Equal(t, 1, cmd.ProcessState.ExitCode(), args)
		assert.Equal(t, "qq: write the answer: stdout is closed, or open only for reading\n"+
			"  hint: let it go to a terminal, a pipe or a file; to /dev/null if nobody needs it\n",
			problems.String(), args)
	}
	assert.Zero(t, server.Count("/api/chat"))
}

// prose is a text, and no list of tasks.
const prose = `
This is some text which somebody has written and then
wrapped at a width so that it goes over several lines of
the file.

`

// TestWrongInput: a mistake is exit code 2, one line that says what is wrong,
// one that says what to do, and a document on stdout where JSON was asked for.
// Nothing is started.
func TestWrongInput(t *testing.T) {
	w, server := newServedWorld(t)
	w.file("latin1.txt", "caf\xe9")
	w.file("nojson.json", "{")
	w.file("bad.schema", `{"type":5}`)
	w.file("tasks.txt", "one\n")
	w.file("number.json", `[{"task":"a"},{"task":5}]`)
	w.file("key.json", `[{"task":"a"},{"task":"b","agnet":"coder"}]`)
	w.file("agent.jsonl", "{\"task\":\"a\"}\n{\"task\":\"b\",\"agent\":\"nobody\"}\n")
	w.file("folder.json", `[{"task":"a","working_dir":"gone"}]`)
	w.file("schema.json", `[{"task":"a","schema":{"type":5}}]`)
	w.file("model.json", `[{"task":"a"},{"task":"b","model":"ollama:none"}]`)
	w.file("empty.txt", "\n")
	w.file("people.csv", "name,city\nAda,London\n")
	w.file("rows.jsonl", "{\"name\":\"Ada\"}\n{\"city\":\"Paris\"}\n")
	w.file("notes.md", prose)
	w.file(".qq/agents/broken.md", "---\nname: [\n---\n")
	for _, c := range append(wrongRuns(), wrongBatches()...) {
		t.Run(c.name, func(t *testing.T) {
			inner := *w
			inner.t = t
			if c.env != "" {
				inner.env = append(w.env[:len(w.env):len(w.env)], c.env)
			}
			run := func(args ...string) ended {
				if c.stdin == "" {
					return inner.run(args...)
				}
				return inner.pipe(c.stdin, args...)
			}
			plain := run(c.args...)
			assert.Equal(t, 2, plain.code)
			assert.Empty(t, plain.out)
			lines := strings.Split(strings.TrimSuffix(plain.errors, "\n"), "\n")
			require.Len(t, lines, 2, plain.errors)
			assert.True(t, strings.HasPrefix(lines[0], "qq: "), lines[0])
			assert.Contains(t, lines[0], c.want)
			assert.True(t, strings.HasPrefix(lines[1], "  hint: "), lines[1])

			asked := run(append([]string{"--json"}, c.args...)...)
			assert.Equal(t, 2, asked.code)
			assert.Equal(t, plain.errors, asked.errors)
			r := asked.document(t)
			assert.Equal(t, "qq: "+r.Err(), lines[0])
			assert.Equal(t, task.Misused, r.Status)
			assert.Equal(t, 2, r.ExitCode)
			assert.False(t, r.Success)
		})
	}
	assert.Zero(t, server.Count("/api/chat"), "nothing was started")
}

func wrongRuns() []wrong {
	return []wrong{
		{name: "no task", want: "no task"},
		{name: "empty task", args: []string{"-m", ""}, want: "the task is empty"},
		{name: "blank prompt", args: []string{" "}, want: "the task is empty"},
		{name: "empty pipe", args: []string{"-m", "-"}, stdin: "\n", want: "nothing came through stdin"},
		{name: "empty pipe, no prompt", stdin: " ", want: "nothing came through stdin"},
		{name: "stdin and no stdin", args: []string{"-m", "-", "--no-stdin"}, stdin: "x", want: "--no-stdin is given"},
		{name: "no task, no stdin", args: []string{"--no-stdin"}, stdin: "x", want: "no task"},
		{name: "pipe of another encoding", stdin: "caf\xe9", want: "stdin is not UTF-8 text (byte 0xe9 at offset 3)"},
		{name: "pipe with NUL", stdin: "a\x00", want: "stdin is not UTF-8 text"},
		{name: "argument of another encoding", args: []string{"caf\xe9"}, want: "not valid UTF-8"},
		{name: "file of another encoding", args: []string{"-f", "latin1.txt"}, want: "latin1.txt is not UTF-8 text"},
		{name: "file that is not there", args: []string{"-f", "gone.txt"}, want: "open gone.txt"},
		{name: "file that is a folder", args: []string{"-f", "."}, want: "is a directory"},
		{name: "task twice", args: []string{"-m", "a", "b"}, want: "more than once"},
		{name: "folder that is not there", args: []string{"-C", "gone", "a"}, want: "chdir gone"},
		{name: "unknown flag", args: []string{"--frobnicate", "a"}, want: "unknown flag"},
		{name: "unknown flag behind the prompt", args: []string{"a", "--frobnicate"}, want: "unknown flag"},
		{name: "number that is none", args: []string{"--max-turns", "many", "a"}, want: `--max-turns is "many"`},
		{name: "number out of range", args: []string{"--max-turns", "0", "a"}, want: "--max-turns is 0"},
		{
			name: "time that is none",
			args: []string{"--timeout", "soon", "a"},
			want: `QQ_CHILD_TIMEOUT (flag --timeout) is "soon"`,
		},
		{
			name: "number in a variable",
			args: []string{"a"},
			env:  "QQ_MAX_DEPTH=deep",
			want: `QQ_MAX_DEPTH (environment) is "deep"`,
		},
		{
			name: "unknown agent",
			args: []string{"-a", "nobody", "a"},
			want: "Agent not found in registry: nobody (known: analyzer, coder,",
		},
		{name: "broken agent", args: []string{"-a", "broken", "a"}, want: "broken.md:3"},
		{
			name: "model without its kind",
			args: []string{"--model", "llama", "a"},
			want: `QQ_MODEL (flag --model) is "llama"`,
		},
		{name: "unknown model", args: []string{"--model", "ollama:none", "a"}, want: `has no model "none"`},
		{name: "schema that is not there", args: []string{"--schema", "gone", "a"}, want: "open gone"},
		{
			name: "schema that is not JSON",
			args: []string{"--schema", "nojson.json", "a"},
			want: "nojson.json: read the schema",
		},
		{
			name: "schema that is none",
			args: []string{"--schema", "bad.schema", "a"},
			want: "bad.schema: read the schema",
		},
		{name: "two sessions", args: []string{"--session", "x", "--continue", "a"}, want: "exclude each other"},
		{name: "unknown session", args: []string{"--session", "x", "a"}, want: "no such session: x"},
		{name: "nothing to continue", args: []string{"--continue", "a"}, want: "no such session in"},
		{
			name: "agents: unknown",
			args: []string{"agents", "show", "nobody"},
			want: "Agent not found in registry: nobody",
		},
		{name: "agents: broken", args: []string{"agents", "show", "broken"}, want: "broken.md:3"},
		{name: "agents: unknown command", args: []string{"agents", "frob"}, want: `no command "frob"`},
		{name: "sessions: unknown", args: []string{"sessions", "show", "x"}, want: "no such session: x"},
		{name: "sessions: a way out", args: []string{"sessions", "rm", "../x"}, want: "is no id"},
		{
			name: "runs: clear everything",
			args: []string{"runs", "clear"},
			want: "qq runs clear would forget everything",
		},
		{
			name: "runs: clear a batch without a name",
			args: []string{"runs", "clear", "--batch", ""},
			want: "would forget everything",
		},
		{
			name: "runs: clear all and some",
			args: []string{"runs", "clear", "--all", "--status", "failed"},
			want: "--all is given together with",
		},
		{name: "an argument too many", args: []string{"config", "x"}, want: `qq config takes no argument: "x"`},
	}
}

func wrongBatches() []wrong {
	var all []wrong
	many := append([]string{":::"}, slices.Repeat([]string{"x"}, 300)...)
	for _, c := range []wrong{
		{name: "no tasks", args: []string{"empty.txt"}, want: "no tasks: empty.txt holds none"},
		{name: "empty pipe", stdin: "\n", want: "no tasks: stdin holds none"},
		{name: "file that is not there", args: []string{"gone.txt"}, want: "no such file: gone.txt"},
		{name: "folder", args: []string{"."}, want: ". is a folder"},
		{name: "two files", args: []string{"tasks.txt", "number.json"}, want: "2 files are given"},
		{name: "file twice", args: []string{"tasks.txt", "--input", "tasks.txt"}, want: "and with --input"},
		{name: "file of another encoding", args: []string{"latin1.txt"},
			want: "task 1 (latin1.txt line 1): not valid UTF-8"},
		{name: "task of the wrong type", args: []string{"number.json"},
			want: `task 2 (number.json line 1): "task" must be text`},
		{name: "unknown key", args: []string{"key.json"},
			want: `task 2 (key.json line 1): unknown key "agnet", did you mean "agent"?`},
		{name: "unknown agent", args: []string{"agent.jsonl"},
			want: "task 2 (agent.jsonl line 2): Agent not found in registry: nobody"},
		{name: "unknown agent for all", args: []string{"-a", "nobody", "tasks.txt"},
			want: "Agent not found in registry: nobody"},
		{name: "folder of a task", args: []string{"folder.json"}, want: "task 1 (folder.json line 1): working_dir: "},
		{name: "schema of a task", args: []string{"schema.json"}, want: "task 1 (schema.json line 1): read the schema"},
		{name: "model of a task", args: []string{"model.json"}, want: `has no model "none"`},
		{name: "halt", args: []string{"--halt", "later", "tasks.txt"}, want: `--halt is "later"`},
		{name: "halt after nothing", args: []string{"--halt", "soon,fail=0", "tasks.txt"},
			want: `--halt is "soon,fail=0"`},
		{name: "halt after more than all", args: []string{"--halt", "now,fail=101%", "tasks.txt"},
			want: `--halt is "now,fail=101%"`},
		{name: "log without a name", args: []string{"--joblog", "", "tasks.txt"},
			want: "the name of the file for --joblog is empty"},
		{name: "log that is a folder", args: []string{"--joblog", ".qq", "tasks.txt"},
			want: "--joblog .qq is a folder"},
		{name: "log in no folder", args: []string{"--joblog", "gone/log", "tasks.txt"}, want: "no such file"},
		{name: "log in a file", args: []string{"--joblog", "tasks.txt/log", "tasks.txt"}, want: "is no directory"},
		{name: "dry run of a resumption", args: []string{"--dry-run", "--resume", "tasks.txt"},
			want: "--dry-run prints the tasks of the input"},
		{name: "dry run of what failed", args: []string{"--dry-run", "--resume-failed=x", "tasks.txt"},
			want: "--dry-run prints the tasks of the input"},
		{name: "jobs", args: []string{"-j", "0", "tasks.txt"}, want: `--jobs is "0"`},
		{name: "jobs of no processor", args: []string{"-j", "0%", "tasks.txt"},
			want: `--jobs is "0%"`},
		{name: "halt at something else", args: []string{"--halt", "soon,skipped=1", "tasks.txt"},
			want: `--halt is "soon,skipped=1"`},
		{name: "delay", args: []string{"--delay", "auto", "tasks.txt"}, want: `--delay is "auto"`},
		{name: "delay below nothing", args: []string{"--delay", "-1", "tasks.txt"}, want: `--delay is "-1"`},
		{name: "memory", args: []string{"--memfree", "much", "tasks.txt"}, want: `--memfree is "much"`},
		{name: "no memory", args: []string{"--memfree", "0", "tasks.txt"}, want: `--memfree is "0"`},
		{name: "flag of parallel", args: []string{"--line-buffer", "tasks.txt"}, want: "unknown flag: --line-buffer"},
		{name: "short flag of parallel", args: []string{"tasks.txt", "-S", "host"}, want: "unknown flag: -S"},
		{name: "empty template", args: []string{"-m", "", "tasks.txt"}, want: "the template is empty"},
		{name: "file of a template", args: []string{"-m", "Read {}", "gone.txt"},
			want: "task 1 (gone.txt): no such file"},
		{name: "unknown word", args: []string{"-m", "Read {file}", "tasks.txt"}, want: "the template names {file}"},
		{name: "unknown column", args: []string{"-m", "To {nmae}", "-i", "people.csv"},
			want: "the template names {nmae}, which is no column"},
		{name: "unknown column of a pipe", args: []string{"-m", "To {nmae} in {city}"},
			stdin: "name,city\nAda,London\n",
			want:  "the template names {nmae}, which is no column"},
		{name: "unknown key of a row", args: []string{"-m", "To {name}", "-i", "rows.jsonl"},
			want: "task 2 (rows.jsonl line 2): the template names {name}, which is no column"},
		{name: "input that is not there", args: []string{"-m", "{3}", ":::", "a", ":::", "b"},
			want: "the template names {3}, and a task has 2 inputs"},
		{name: "second input of a line", args: []string{"-m", "x {2}"}, stdin: "1\n2\n3\n",
			want: "the template names {2}, and a task has one input"},
		{name: "file outside", args: []string{"-m", "Read {}", "/etc/hostname"},
			want: "task 1 (/etc/hostname): the file is outside of the working directory"},
		{name: "prose", args: []string{"notes.md"}, want: "notes.md is a text, and no list of tasks"},
		{name: "prose from a pipe", stdin: prose + prose, want: "stdin looks like a text, and no list of tasks"},
		{name: "names that end in NUL", args: []string{"-m", "Read {}"}, stdin: "a\x00b\x00",
			want: "task contains a NUL character"},
		{name: "nothing after :::", args: []string{"-m", "{}", ":::"}, want: "nothing stands after :::"},
		{name: "linked to nothing", args: []string{"-m", "{}", ":::+", "a"}, want: ":::+ links to the list before it"},
		{name: "flag after :::", args: []string{"-m", "{}", ":::", "a", "--resume"},
			want: "--resume after ::: would be an input, and no flag"},
		{name: "short flag after :::", args: []string{":::", "a", "-m", "S {}", "-j", "2"},
			want: "-m after ::: would be an input, and no flag"},
		{name: "short flag with a number after :::", args: []string{"-m", "S {}", ":::", "a", "-j2"},
			want: "-j2 after ::: would be an input, and no flag"},
		{name: "template without -m", args: []string{"Summarize {}", ":::", "a"},
			want: `a template needs -m: "Summarize {}"`},
		{name: "template from stdin", args: []string{"-m", "-", "tasks.txt"}, want: "the template is -"},
		{name: "id without =", args: []string{"-m", "Read {}", "tasks.txt", "--resume", "2f47e694"},
			want: "no such file: 2f47e694"},
		{name: "short flag joined with its value", args: []string{"-P4", "tasks.txt"}, want: "unknown flag: -P"},
		{name: "placeholder of parallel", args: []string{"-I%", "tasks.txt"}, want: "unknown flag: -I"},
		{name: "too many combinations", args: slices.Concat([]string{"-m", "{}"}, many, many, many, many),
			want: "the lists make 8100000000 tasks"},
		{name: "files and :::", args: []string{"-m", "{}", "tasks.txt", ":::", "a"},
			want: "inputs are given in two ways: tasks.txt, and after :::"},
		{name: "input and :::", args: []string{"-m", "{}", "-i", "tasks.txt", ":::", "a"},
			want: "inputs are given in two ways: --input tasks.txt, and after :::"},
		{name: "no file after ::::", args: []string{"-m", "{}", "::::", "gone.txt"}, want: "no such file: gone.txt"},
		{name: "stdin twice", args: []string{"-m", "{}", "::::", "-", "-"}, stdin: "a",
			want: "stdin can be read once only"},
		{name: "-n of no number", args: []string{"-n", "0", "-m", "{}", "tasks.txt"}, want: `-n is "0"`},
		{name: "-n with several lists", args: []string{"-n2", "-m", "{}", ":::", "a", ":::", "b"},
			want: "-n is given with 2 lists"},
		{name: "-n without a template", args: []string{"-n2", "tasks.txt"}, want: "-n without a template"},
		{name: "-n and --colsep", args: []string{"-n2", "--colsep", ",", "-m", "{}", "-i", "tasks.txt"},
			want: "-n and --colsep are both given"},
		{name: "-n with rows", args: []string{"-n2", "-m", "{}", "-i", "people.csv"}, want: "-n does not go with rows"},
		{name: "--colsep that is no expression", args: []string{"--colsep", "(", "-m", "{}", "-i", "tasks.txt"},
			want: `--colsep is no regular expression: "("`},
		{name: "--colsep with rows", args: []string{"--colsep", ",", "--input-format", "csv", "-m", "{}"}, stdin: "a",
			want: "--colsep is for lines, and --input-format is csv"},
		{name: "-0 with rows", args: []string{"-0", "--input-format", "csv", "-m", "{}"}, stdin: "a",
			want: "-0 is for lines, and --input-format is csv"},
		{name: "form with :::", args: []string{"--input-format", "csv", "-m", "{}", ":::", "a"},
			want: "--input-format does not go with :::"},
		{name: "output", args: []string{"-o", "gone/out", "tasks.txt"}, want: "open gone/out"},
		{name: "results", args: []string{"--results", "tasks.txt", "tasks.txt"}, want: "tasks.txt"},
	} {
		c.name, c.args = "batch: "+c.name, append([]string{"batch"}, c.args...)
		all = append(all, c)
	}
	return all
}

// TestDirectoryGone: in a deleted working directory qq reports that, and it works with
// -C.
func TestDirectoryGone(t *testing.T) {
	w := newWorld(t)
	w.set("QQ_MODEL=extract")
	w.file("here/x", "")
	cmd := w.command("--json", "a")
	gone := w.dir + "/here"
	cmd.Path, cmd.Args = "/bin/sh", []string{"sh", "-c", `rm -r "$PWD" && exec "$0" "$@"`, cmd.Path, "--json", "a"}
	cmd.Dir = gone
	var problems strings.Builder
	cmd.Stderr = &problems
	// The shell names the program by its path, which TestMain does not take for qq.
	require.NoError(t, os.Symlink(cmd.Args[3], w.dir+"/qq"))
	cmd.Args[3] = w.dir + "/qq"
	out, err := cmd.Output()
	require.Error(t, err)
	assert.Equal(t, 2, cmd.ProcessState.ExitCode(), problems.String())
	assert.Contains(t, problems.String(), "hint: the directory is gone")
	assert.Equal(t, 2, ended{out: string(out)}.document(t).ExitCode)
}

// TestQuiet: --quiet hides remarks but not errors.
func TestQuiet(t *testing.T) {
	w, _ := newServedWorld(t, standin.Models(standin.Model{Name: "stand-in", Capabilities: []string{"completion"}}))
	assert.Equal(t, "qq: model stand-in cannot call tools: agents work without them\n", w.run("hello").errors)
	assert.Empty(t, w.run("-q", "hello").errors)
	assert.NotEmpty(t, w.run("-q", "").errors)
}
