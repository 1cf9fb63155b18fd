package app

import (
	"os"
	"slices"
	"strings"

	"qq/internal/app/command"
	"qq/internal/app/output"
	"qq/internal/approval"
	"qq/internal/config"
	"qq/pkg/agents"
)

// checkTools returns an error if the settings allow or deny a tool that does not exist. Who
// denies "bash", for example, would wrongly believe that agents cannot run commands.
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

// checkWritable returns an error if a writable folder does not exist: the sandbox can
// only allow writes to existing folders.
func checkWritable(cfg config.Config) error {
	for _, dir := range cfg.Writable {
		if info, err := os.Stat(dir); err != nil || !info.IsDir() {
			return command.Usagef("make it, or leave it out",
				"QQ_WRITABLE (%s) names %q, which is no folder", cfg.Source("QQ_WRITABLE"), dir)
		}
	}
	return nil
}

// prompter opens the terminal to ask a person about risky calls. It returns nil if there is
// no terminal: risky calls are then refused, with the reason. other is a further writer to
// the terminal that must pause during a question; it may be nil.
func (r *root) prompter(other approval.Screen) approval.Prompter {
	screen := screens{r.narrator}
	if other != nil {
		screen = append(screen, other)
	}
	terminal, err := approval.OpenTerminal(output.IsTerminal(r.Err), r.Coloured(r.Err), screen)
	if err != nil {
		return nil
	}
	r.terminal = terminal
	return terminal
}

// screens are the other writers to the terminal. They pause while a question is on it.
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
