package command

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/urfave/cli/v2"
)

func TestOptionalFlag(t *testing.T) {
	for _, c := range []struct {
		args []string
		want Optional
		rest []string
	}{
		{[]string{"qq"}, Optional{}, []string{}},
		{[]string{"qq", "a.txt", "--resume"}, Optional{Given: true}, []string{"a.txt"}},
		{[]string{"qq", "--resume", "a.txt"}, Optional{Given: true}, []string{"a.txt"}},
		{[]string{"qq", "--resume=3f2a", "a.txt"}, Optional{Given: true, Value: "3f2a"}, []string{"a.txt"}},
		{[]string{"qq", "--resume=false"}, Optional{}, []string{}},
	} {
		var got Optional
		var rest []string
		app := &cli.App{Flags: named([]cli.Flag{OptionalFlag("resume", "go on", &got)}),
			Action: func(c *cli.Context) error {
				rest = c.Args().Slice()
				return nil
			}}
		require.NoError(t, app.Run(Permute(app, c.args)))
		assert.Equal(t, c.want, got, c.args)
		assert.Equal(t, c.rest, rest, c.args)
	}
}

// The error of the flag library becomes one line that says what is wrong, in the words of qq, and a hint.
func TestWrongFlag(t *testing.T) {
	w := wrongFlag{"qq runs", named([]cli.Flag{&cli.IntFlag{Name: "limit"}, &cli.BoolFlag{Name: "json"}, FlagAgent}),
		Foreign{"tail": "--limit N shows the newest N", "n": "write --limit",
			"L": "not offered", "d": "not offered"}, nil}
	const lists, takes = "qq runs --help lists the flags", "qq runs --help says what it takes"
	for problem, want := range map[string][2]string{
		"flag provided but not defined: -lmit": {
			"unknown flag: --lmit", "did you mean --limit? " + lists},
		"flag provided but not defined: -agnt": {
			"unknown flag: --agnt", "did you mean --agent? " + lists},
		"flag provided but not defined: -x":   {"unknown flag: -x", lists},
		"flag provided but not defined: -L1":  {"unknown flag: -L", "not offered"},
		"flag provided but not defined: -d,":  {"unknown flag: -d", "not offered"},
		"flag provided but not defined: -n4":  {"unknown flag: -n", "write --limit"},
		"flag provided but not defined: -Lab": {"unknown flag: -L", "not offered"},
		"flag provided but not defined: -Limit": {
			"unknown flag: --Limit", "did you mean --limit? " + lists},
		"flag provided but not defined: -Tail":                {"unknown flag: --Tail", "--limit N shows the newest N"},
		"flag provided but not defined: -dab":                 {"unknown flag: --dab", lists},
		"flag provided but not defined: -other":               {"unknown flag: --other", lists},
		"flag provided but not defined: -tail":                {"unknown flag: --tail", "--limit N shows the newest N"},
		"flag provided but not defined: -n":                   {"unknown flag: -n", "write --limit"},
		"flag needs an argument: -a":                          {"flag needs an argument: -a", takes},
		"flag needs an argument: -agent":                      {"flag needs an argument: --agent", takes},
		`invalid value "a \" b" for flag -limit: parse error`: {`--limit is "a \" b"`, "accepted is a whole number"},
		`invalid value "x" for flag -other: parse error`:      {`--other is "x"`, takes},
		`invalid boolean value "maybe" for -json: parse error`: {
			`--json is "maybe"`, "accepted is true or false, or --json alone"},
		"bad flag syntax: ---x": {"bad flag syntax: ---x", "qq runs --help says what the flags take"},
	} {
		assert.EqualError(t, w.explain(problem), want[0]+"\nhint: "+want[1])
	}
	w.command = "qq"
	err := w.explain("flag provided but not defined: -frob")
	assert.ErrorContains(t, err, "a prompt that begins with - goes after --")
	w.commands = []*cli.Command{{Name: "batch", Flags: named([]cli.Flag{
		&cli.IntFlag{Name: "jobs", Aliases: []string{"j"}}})}}
	assert.EqualError(t, w.explain("flag provided but not defined: -j"),
		"unknown flag: -j\nhint: it belongs to qq batch: qq batch -j … -m 'Summarize {}' FILES")
}
