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
	FlagModel   = &cli.StringFlag{Name: "model", Usage: "ollama:NAME, extract or auto"}
	FlagCwd     = &cli.StringFlag{Name: "cwd", Aliases: []string{"C"}, Usage: "work in this directory"}
	FlagJSON    = &cli.BoolFlag{Name: "json", Usage: "print JSON"}
	FlagQuiet   = &cli.BoolFlag{Name: "quiet", Aliases: []string{"q"}, Usage: "say nothing on stderr but errors"}
	FlagNoColor = &cli.BoolFlag{Name: "no-color", Usage: "no colour and no animation"}
)

// Configure changes to the directory of --cwd and reads the settings from the flags of c,
// the environment and .env files. It also returns the path of the working directory, and
// prints warnings about the settings.
func (i *Invocation) Configure(c *cli.Context) (config.Config, string, error) {
	if dir := c.String("cwd"); dir != "" {
		if err := os.Chdir(dir); err != nil {
			return config.Config{}, "", Usagef("-C takes a directory that exists", "go to the working directory: %v",
				err)
		}
	}
	dir, err := os.Getwd()
	if err == nil {
		_, err = os.Stat(dir)
	}
	if err != nil {
		return config.Config{}, "", Usagef("the directory is gone: go to another one, or name one with -C",
			"find the working directory: %v", err)
	}
	flags, err := settingFlags(c)
	if err != nil {
		return config.Config{}, "", err
	}
	cfg, err := config.Load(config.Input{Flags: flags, Environ: i.Env, Dir: dir})
	if err != nil {
		return config.Config{}, "", Usage(err)
	}
	i.Quiet, i.Plain = c.Bool("quiet"), c.Bool("no-color")
	for _, w := range cfg.Warnings {
		i.Note("%s", w)
	}
	return cfg, dir, nil
}

// settingFlags returns the values of the flags that change a setting, by name.
func settingFlags(c *cli.Context) (map[string]string, error) {
	flags := map[string]string{}
	for _, s := range config.Settings() {
		switch {
		case s.Flag == "" || !c.IsSet(s.Flag):
		case s.Kind == config.List:
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

// Agents returns the agents that are available in the working directory dir.
func (e Environment) Agents(dir string) *agents.Registry {
	return agents.Load(agents.Dirs(dir, e.ConfigHome()))
}

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
