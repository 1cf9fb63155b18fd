package command

import (
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/urfave/cli/v2"
)

// Words that are probably no prompt are not sent to a model; those that may be one are.
func TestMistaken(t *testing.T) {
	commands := []*cli.Command{{Name: "batch"}, {Name: "runs"}, {Name: "man"}, {Name: "config"}, {Name: "doctor"},
		{Name: "trust"}, {Name: "version"},
		{Name: "models", Subcommands: []*cli.Command{{Name: "list"}}}, {Name: "setup"},
		{Name: "agents", Subcommands: []*cli.Command{{Name: "list"}}}, {Name: "__complete", Hidden: true}}
	for prompt, want := range map[string]string{
		"doctr": "qq doctor is", "docter": "qq doctor is", "odctor": "qq doctor is", "agent": "qq agents is",
		"Agent": "qq agents is", "agnets": "qq agents is", "runz": "qq runs is", "urns": "qq runs is",
		"run":   "qq runs is",
		"bacth": "qq batch is", "agent list": "qq agents list is", "cnofig": "qq config is",
		"ls": "list things", "serve": "no server", "mcp": "no MCP", "chat": "no console", "login": "no account",
		"logout": "no account", "auth": "no account", "init": "qq setup", "install": "make install",
		"update": "make install", "upgrade": "make install", "list": "list things", "model": "qq models is",
		"mdoels": "qq models is", "setpu": "qq setup is", "models lst": "",
		"pull": "qq models pull", "status": "--live", "ps": "--live", "top": "--live",
		"exec": "runs a prompt", "start": "runs a prompt", "resume": "batch --resume", "stop": "runs cancel",
		"plan": "--dry-run", "LOGIN": "no account",
		"agents": "", "agent smith": "", "hello": "", "doctor who": "", "": "", "list agent": "", "list files": "",
		"patch": "", "match": "", "rust": "", "truth": "", "factor": "", "map": "", "main": "", "mann": "", "turns": "",
		"why": "", "help": "", "explain": "", "status?": "", "Warum?": "", "__complte": "", "one two three": "",
		"a ::: b": "",
	} {
		err := Mistaken(commands, "", []string{prompt})
		if want == "" {
			assert.NoError(t, err, prompt)
			continue
		}
		assert.ErrorContains(t, err, strconv.Quote(prompt)+" is no command\nhint: ", prompt)
		assert.ErrorContains(t, err, want, prompt)
		assert.ErrorContains(t, err, "; as a prompt it is: qq -m "+strconv.Quote(prompt), prompt)
	}
}

// A list of values was meant for qq batch.
func TestMistakenList(t *testing.T) {
	err := Mistaken(nil, "", []string{"Summarize", "{}", ":::", "a.txt"})
	require.EqualError(t, err, "::: belongs to qq batch\n"+
		"hint: write: qq batch -m 'Summarize {}' ::: VALUES; a prompt with ::: goes after --")
	require.ErrorContains(t, Mistaken(nil, "", []string{"Summarize {}", "::::+", "a"}), "::::+ belongs to qq batch")
}

// A sentence that begins with the name of a command is a prompt. A mistake in a call of the command stays one.
func TestSentences(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, name := range []string{"a.txt", "go.mod"} {
		require.NoError(t, os.WriteFile(name, nil, 0o600))
	}
	require.NoError(t, os.Mkdir("docs", 0o700))
	for line, prompt := range map[string]bool{
		"version of go in go.mod": true, "man of the match": true, "doctor who is": true, "-q version of go": true,
		"version of go --json": true, "config files and their place": true, "trust me on this": true,
		"batch up the files in docs": true, "runs of this test fail": true, "agents of change exist": true,
		"--agent coder version of go": true, "completion of this sentence please": true,
		"version": false, "version please": false, "version -m x y": false, "config x": false,
		"doctor --model x": false,
		"batch a.txt":      false, "batch nofile.jsonl": false, "batch up the files in a.txt": false,
		"batch one two --halt soon three": false, "batch -m Read a b c": false, "batch x y nofile.jsonl": false,
		"batch -- up the files": false, "batch docs/x y z": false, "agents lst": false, "agents lst all of them": false,
		"agents show me the coder": true, "agents show the coder": true, "sessions are slow": true,
		"permissions are wrong": true, "runs show up twice": true, "agents check the code": true,
		"completion is broken": true, "config files": true, "version bump": true, "doctor is wrong": true,
		"models of cars": true, "models are wrong": true, "setup my laptop": true,
		"models list": false, "models pull a": false, "models test a b": false, "setup openai": false,
		"man batch": false, "man batc": false, "config list": false, "config help": false, "config model": false,
		"config edit":    false,
		"config timeout": false, "doctor 1": false, "runs show 5b1c09aa up": false, "runs show up": false,
		"runs show coder reviewer": false, "runs clear all my files": false, "runs clear the old ones": false,
		"sessions rm the old": false, "sessions prune my things": false, "runs shwo the last": false,
		"agents check the a.txt": false, "runs cancel the last one": false, "agents new is it": false,
		"agents new code reviewer agent": false, "runs shwo 5b1c a b": false,
		"runs delete a b": false, "runs 5b1c09aa a b": false, "runs kill x": false, "sessions rm a b c": false,
		"batch Read it now ::: a b": false,
		"doctor foo":                false, "doctor sandbox": false, "version foo": false, "man foo": false,
		"man page":                    true,
		"config set QQ_MODEL extract": false, "config set the model": false, "version foo bar baz": false,
		"doctor model server ok": false, "batch alpha beta gamma": false, "runs foo bar baz": false,
		"completion bash foo bar": false, "version control in git": true, "config file": true, "doctor -q foo": false,
		"trust docs a b": false, "trust me": false, "permissions rm 1 2 3": false, "completion bash": false,
	} {
		app := &cli.App{Flags: []cli.Flag{&cli.StringFlag{Name: "message", Aliases: []string{"m"}}, FlagQuiet, FlagJSON,
			FlagAgent, FlagModel}, Commands: []*cli.Command{
			{Name: "setup", ArgsUsage: "[MODEL | SERVER]"},
			{Name: "models", Subcommands: []*cli.Command{{Name: "list"}, {Name: "show"}, {Name: "pull"},
				{Name: "test"}}},
			{Name: "version"}, {Name: "man"}, {Name: "config"}, {Name: "doctor", Flags: []cli.Flag{FlagModel}},
			{Name: "completion", ArgsUsage: "bash | zsh | fish"}, {Name: "trust", ArgsUsage: "[WHERE]"},
			{Name: "batch", ArgsUsage: "[TASKS]", Flags: []cli.Flag{&cli.StringFlag{Name: "halt"}}},
			{Name: "agents", Subcommands: []*cli.Command{{Name: "list"}, {Name: "show"}, {Name: "new"},
				{Name: "check"}}},
			{Name: "runs", Subcommands: []*cli.Command{{Name: "list"}, {Name: "show"}, {Name: "clear"},
				{Name: "cancel"}}},
			{Name: "sessions", Subcommands: []*cli.Command{{Name: "rm"}, {Name: "prune"}}},
			{Name: "permissions", Subcommands: []*cli.Command{{Name: "rm"}}},
		}}
		Permute(app, append([]string{"qq"}, strings.Fields(line)...))
		assert.Equal(t, prompt, len(app.Commands) == 0, line)
	}
}

func TestHelped(t *testing.T) {
	app := &cli.App{Commands: []*cli.Command{
		{Name: "batch"}, {Name: "runs", Subcommands: []*cli.Command{{Name: "show"}}}}}
	for line, want := range map[string]string{
		"qq help": "qq --help", "qq help batch": "qq batch --help", "qq help runs show": "qq runs show --help",
		"qq batch": "qq batch", "qq help me understand this": "qq help me understand this",
		"qq help me now": "qq help me now", "qq help me": "qq help me",
	} {
		got, err := Helped(app, strings.Fields(line))
		require.NoError(t, err)
		assert.Equal(t, want, strings.Join(got, " "))
	}
	for line, want := range map[string]string{
		"qq help bogus": "qq has no command \"bogus\"\nhint: qq --help lists the commands; as a prompt it is: qq -m ",
		"qq help bacth": "did you mean qq help batch? ", "qq help runs shwo": "did you mean qq help runs show? ",
		"qq help runs of": "qq runs has no command \"of\"\nhint: qq runs --help lists",
	} {
		_, err := Helped(app, strings.Fields(line))
		assert.ErrorContains(t, err, want, line)
	}
}

// Short flags may be written as one.
func TestBundles(t *testing.T) {
	flags := named([]cli.Flag{&cli.BoolFlag{Name: "keep-order", Aliases: []string{"k"}}, FlagQuiet, FlagAgent,
		&cli.StringFlag{Name: "jobs", Aliases: []string{"j"}}, &cli.BoolFlag{Name: "qk"}})
	for line, want := range map[string]string{
		"x -kqj4": "-k -q -j 4 -- x", "x -kj 4 y": "-k -j 4 -- x y", "-kj+2": "-k -j +2 --", "-kq": "-k -q --",
		"-qk": "-qk --", "-jk": "-jk --", "-kx": "-kx --", "-kagent": "-kagent --", "-kj4x": "-kj4x --",
		"-agent a": "-agent a --", "-j=4 -k=false": "-j=4 -k=false --", "-ka -1": "-k -a -1 --",
	} {
		assert.Equal(t, want, strings.Join(flagsFirst(flags, strings.Fields(line)), " "), line)
	}
}

// What follows ::: are values, even if they look like flags.
func TestPermuteValues(t *testing.T) {
	batch := &cli.Command{
		Name: "batch", ArgsUsage: "[TASKS]",
		Flags: []cli.Flag{&cli.StringFlag{Name: "m"}, &cli.BoolFlag{Name: "q"}},
	}
	other := &cli.Command{Name: "other", ArgsUsage: "FILE | :::", Flags: batch.Flags}
	for _, c := range [][2][]string{
		{{"batch", "a", "-q", ":::", "-m", "b"}, {"batch", "-q", "--", "a", ":::", "-m", "b"}},
		{{"-q", "batch", "-m", "x", "::::+", "-q", ":::", "--"},
			{"batch", "-q", "-m", "x", "--", "::::+", "-q", ":::", "--"}},
		{{"batch", "-m", ":::", "a"}, {"batch", "-m"}},
		{{"batch", "--", ":::", "-q"}, {"batch", "--", ":::", "-q"}},
		{{"other", "a", ":::", "-q"}, {"other", "-q", "--", "a", ":::"}},
		{{"what", "is", ":::", "-q"}, {"-q", "--", "what", "is", ":::"}},
	} {
		app := &cli.App{Commands: []*cli.Command{batch, other}, Flags: batch.Flags}
		assert.Equal(t, append([]string{"qq"}, c[1]...), Permute(app, append([]string{"qq"}, c[0]...)), c[0])
	}
}
