package command

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/urfave/cli/v2"

	"qq/internal/config"
	"qq/pkg/agents"
)

// Flags that most commands share.
var (
	FlagModel    = &cli.StringFlag{Name: "model", Usage: "SERVER:NAME, such as ollama:qwen3, an alias, extract or auto"}
	FlagFallback = &cli.StringSliceFlag{Name: "fallback",
		Usage: "models that are asked instead, if the server of a model cannot be had; repeatable"}
	FlagCwd   = &cli.StringFlag{Name: "cwd", Aliases: []string{"C"}, Usage: "work in this directory"}
	FlagJSON  = &cli.BoolFlag{Name: "json", Usage: "print JSON"}
	FlagQuiet = &cli.BoolFlag{Name: "quiet", Aliases: []string{"q"},
		Usage: "hide progress and notes, never errors and warnings"}
	FlagNoColor = &cli.BoolFlag{Name: "no-color", Usage: "no colour and no animation"}
)

// LookFlags returns the flags of commands that only print something.
func LookFlags() []cli.Flag { return []cli.Flag{FlagCwd, FlagJSON, FlagQuiet} }

// Configure reads the settings that count in the working directory, and prints warnings about them. It also returns
// the path of the working directory. It is for commands that run no agent: a .env of the working directory that is
// broken is a warning, and the other settings count.
func (i *Invocation) Configure(c *cli.Context) (config.Config, string, error) {
	o, err := i.OpenAnyway(c)
	if err != nil {
		return config.Config{}, "", err
	}
	i.WarnBroken()
	return o.Settings, o.Dir, nil
}

// WarnBroken prints the warnings about the settings, and that a .env counts as empty.
func (i *Invocation) WarnBroken() {
	if broken := i.Checkout.Broken; broken != nil {
		Report(i.Err, fmt.Errorf(".env is ignored: %w", broken))
	}
	i.Warn(i.Checkout.Lines())
}

// dotEnvUse says what counts of the .env of the working directory.
type dotEnvUse int

const (
	needed   dotEnvUse = iota // a broken one is an error
	unread                    // nothing
	optional                  // a broken one counts as empty
	examined                  // all that is not wrong
)

// Open changes to the directory of --cwd and reads the settings from the flags of c, the environment and .env files.
// It prints nothing; the caller calls Warn.
func (i *Invocation) Open(c *cli.Context) (*Checkout, error) { return i.open(c, needed) }

// OpenAnyway is Open, but a broken .env of the working directory counts as empty: see Checkout.Broken.
func (i *Invocation) OpenAnyway(c *cli.Context) (*Checkout, error) { return i.open(c, optional) }

// OpenBare is Open without the .env of the working directory.
func (i *Invocation) OpenBare(c *cli.Context) (*Checkout, error) { return i.open(c, unread) }

// Examine is OpenAnyway for a look at the settings: what is wrong with them is in Checkout.Mistakes, and counts as not
// given.
func (i *Invocation) Examine(c *cli.Context) (*Checkout, error) { return i.open(c, examined) }

func (i *Invocation) open(c *cli.Context, use dotEnvUse) (*Checkout, error) {
	if err := refuseEmpty(c); err != nil {
		return nil, err
	}
	if dir := c.String("cwd"); dir != "" {
		if err := os.Chdir(dir); err != nil {
			return nil, Usagef("-C takes a directory that exists", "go to the working directory: %v", err)
		}
	}
	dir, err := os.Getwd()
	if err == nil {
		_, err = os.Stat(dir)
	}
	if err != nil {
		return nil, Usagef("the directory is gone: go to another one, or name one with -C",
			"find the working directory: %v", err)
	}
	flags, err := settingFlags(c)
	if err != nil {
		return nil, err
	}
	in := config.Input{Flags: flags, Environ: i.Env, Dir: dir, NoCheckout: use == unread}
	cfg, err := config.Load(in)
	var broken error
	if err != nil && use >= optional {
		in.NoCheckout = true
		if cfg, broken = config.Load(in); broken == nil { // so the mistake is in that file
			broken, err = err, nil
		}
	}
	if err != nil && use == examined { // the mistake is elsewhere
		in.NoCheckout, in.Anyway, broken = false, true, nil
		cfg, err = config.Load(in)
	}
	if err != nil {
		return nil, Usage(err)
	}
	i.Quiet, i.Plain = c.Bool("quiet"), c.Bool("no-color")
	i.Checkout, err = newCheckout(dir, cfg, i.Env)
	if i.Checkout == nil {
		return nil, err
	}
	i.Checkout.Broken, i.Checkout.Mistakes = broken, i.Checkout.Settings.Mistakes
	if err != nil && use == examined { // what is trusted is wrong
		i.Checkout.Mistakes, err = append(i.Checkout.Mistakes, err), nil
	}
	return i.Checkout, err
}

// Warn prints the warnings about the settings, and about those of claims that do not count. Results have the latter
// too.
func (i *Invocation) Warn(claims []Claim) {
	for _, w := range i.Checkout.Settings.Warnings {
		i.Say("%s", w)
	}
	if len(claims) == 0 {
		return
	}
	Report(i.Err, i.Checkout.Unreadable())
	ignored := Ignored(claims)
	for n, c := range ignored {
		text := c.String()
		if n == maxWarnings {
			text = fmt.Sprintf("%d more lines and agents of this folder are ignored; see qq trust", len(ignored)-n)
		}
		i.Ignored = append(i.Ignored, text)
		i.Say("%s", text)
		if n == maxWarnings {
			return
		}
	}
}

// maxWarnings is how many warnings about the files of a checkout there are; one more says how many are left out.
const maxWarnings = 30

// settingFlags returns the values of the flags that change a setting, by name.
func settingFlags(c *cli.Context) (map[string]string, error) {
	flags := map[string]string{}
	for _, s := range config.Settings() {
		switch {
		case s.Flag == "" || !c.IsSet(s.Flag):
		case s.Kind == config.List || s.Kind == config.Rules || s.Kind == config.Models:
			flags[s.Flag] = strings.Join(c.StringSlice(s.Flag), ",")
		default:
			flags[s.Flag] = fmt.Sprint(c.Value(s.Flag))
		}
	}
	if c.Bool("auto-approve") {
		if how, ok := flags["approve"]; ok && how != "auto" {
			return nil, Usagef("leave one of them out", "--auto-approve and --approve %s disagree", how)
		}
		flags["approve"] = "auto"
	}
	return flags, nil
}

// ConfigHome returns the base folder of the user's configuration; "" if there is none.
func (e Environment) ConfigHome() string { return config.XDG(e, "XDG_CONFIG_HOME") }

// FindAgent returns the agent of that name. A missing or invalid definition is a usage
// error.
func FindAgent(reg *agents.Registry, name string) (agents.Agent, error) {
	a, err := reg.Lookup(name)
	if err == nil {
		return a, nil
	}
	hint := "mend or remove the file"
	if _, ok := errors.AsType[*agents.NotFoundError](err); ok {
		hint = "qq agents list shows them, and where each came from"
	}
	return a, Usage(Advised(err, hint))
}
