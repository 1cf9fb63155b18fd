package app

import (
	"os"
	"slices"
	"strings"

	"qq/internal/app/command"
	"qq/internal/app/output"
	"qq/internal/approval"
	"qq/internal/config"
	"qq/internal/tools/web"
	"qq/pkg/agents"
)

// checkTools refuses names of tools that do not exist: a person who denies "bash"
// must not believe that something is denied.
func checkTools(cfg config.Config) error {
	for _, s := range []struct {
		name  string
		tools []string
	}{{"QQ_ALLOW", cfg.Allow}, {"QQ_DENY", cfg.Deny}} {
		for _, t := range s.tools {
			if !slices.Contains(agents.KnownTools(), t) {
				hint := "the tools are: " + strings.Join(agents.KnownTools(), ", ")
				if near := agents.NearestTool(t); near != "" {
					hint = "did you mean " + near + "?"
				}
				return command.Usagef(hint, "%s (%s) names %q, which is no tool", s.name, cfg.Source(s.name), t)
			}
		}
	}
	return nil
}

// checkWritable refuses folders that do not exist: the sandbox can only allow writes
// below existing ones.
func checkWritable(cfg config.Config) error {
	for _, dir := range cfg.Writable {
		if info, err := os.Stat(dir); err != nil || !info.IsDir() {
			return command.Usagef("make it, or leave it out",
				"QQ_WRITABLE (%s) names %q, which is no folder", cfg.Source("QQ_WRITABLE"), dir)
		}
	}
	return nil
}

// equip adds permissions and web search to cfg, and opens the terminal if a person
// can be asked there.
func (r *root) equip(cfg *wiringConfig, other approval.Screen) error {
	if err := checkTools(cfg.Settings); err != nil {
		return err
	}
	if err := checkWritable(cfg.Settings); err != nil {
		return err
	}
	search, err := web.NewSearch(cfg.Settings.Search, r.Env.Get)
	if err != nil {
		return command.Usage(err)
	}
	cfg.Search = search
	if approval.Mode(cfg.Settings.Approve) != approval.Ask {
		return nil
	}
	screen := screens{r.narrator}
	if other != nil {
		screen = append(screen, other)
	}
	prompt, err := approval.OpenTerminal(output.IsTerminal(r.Err), r.Coloured(r.Err), screen)
	if err != nil {
		return nil // nobody can be asked: each refusal says so
	}
	cfg.Prompter, r.terminal = prompt, prompt
	return nil
}

// screens are all that write to the terminal beside a question.
type screens []approval.Screen

// Hold implements approval.Screen.
func (s screens) Hold() (release func()) {
	var releases []func()
	for _, screen := range s {
		releases = append(releases, screen.Hold())
	}
	return func() {
		for _, release := range releases {
			release()
		}
	}
}
