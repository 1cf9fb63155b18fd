package permissions

import (
	"path/filepath"
	"sync"
	"syscall"

	"qq/internal/app/command"
	"qq/internal/approval"
	"qq/internal/approval/rulefile"
	"qq/internal/approval/rules"
	"qq/internal/config"
	"qq/pkg/task"
)

// Policy makes the policy for tool calls from the settings. The error is that of Check. It says what an
// allowing rule allows that may not be expected.
func Policy(i *command.Invocation, cfg config.Config) (p approval.Policy, err error) {
	p.Mode = approval.Mode(cfg.Approve)
	if p.Allow, p.Deny, err = parse(cfg); err != nil {
		return p, err
	}
	for _, rule := range p.Allow {
		if caution := rule.Caution(); caution != "" {
			i.Note("%s", caution)
		}
	}
	if p.Home = filepath.Clean(i.Env.Get("HOME")); !filepath.IsAbs(p.Home) {
		p.Home = string(filepath.Separator)
	} else if real, err := filepath.EvalSymlinks(p.Home); err == nil {
		p.Home = real
	}
	p.Root, err = syscall.Getwd() // os.Getwd would trust $PWD
	return p, err
}

// Check returns an error if a rule in the settings cannot be read, or names a tool that does not exist: who
// denies "bash", for example, would wrongly believe that agents cannot run commands.
func Check(cfg config.Config) error {
	_, _, err := parse(cfg)
	return err
}

// parse returns the rules in the settings.
func parse(cfg config.Config) (allow, deny []rules.Rule, err error) {
	for _, s := range []struct {
		name string
		from []string
		to   *[]rules.Rule
	}{{"QQ_ALLOW", cfg.Allow, &allow}, {"QQ_DENY", cfg.Deny, &deny}} {
		for _, text := range s.from {
			rule, err := rules.Parse(text)
			if err != nil {
				problem, hint := task.Explain(err)
				return nil, nil, command.Usagef(hint, "%s (%s) %s", s.name, cfg.Source(s.name), problem)
			}
			*s.to = append(*s.to, rule)
		}
	}
	return allow, deny, nil
}

// Lasting returns the lasting rules of the person for a run in dir; nil if there are none and none can
// be made. A file of rules inside of dir could come with a checkout.
func Lasting(i *command.Invocation, dir string) approval.Lasting {
	home := i.Env.ConfigHome()
	if home == "" {
		return nil
	}
	home = filepath.Join(home, "qq")
	real := home
	for real != filepath.Dir(real) { // up to a folder that exists
		if at, err := filepath.EvalSymlinks(real); err == nil {
			real = at
			break
		}
		real = filepath.Dir(real)
	}
	if rel, err := filepath.Rel(dir, real); err != nil || filepath.IsLocal(rel) {
		return nil
	}
	l := &lasting{Store: rulefile.Open(home), Invocation: i}
	if _, err := l.Check(); err != nil {
		l.report(err)
	}
	return l
}

// lasting is the store of lasting rules. It tells the person once what is wrong with it.
type lasting struct {
	rulefile.Store
	*command.Invocation
	once sync.Once
}

// Rules implements approval.Lasting.
func (l *lasting) Rules(folder string) []rules.Rule {
	found, err := l.Store.Rules(folder)
	if err != nil {
		l.report(err)
	}
	return found
}

func (l *lasting) report(err error) { l.once.Do(func() { command.Report(l.Err, err) }) }

// Add implements approval.Lasting.
func (l *lasting) Add(folder string, rule rules.Rule) bool {
	err := l.Store.Add(folder, rule)
	if err != nil {
		command.Report(l.Err, err)
	}
	return err == nil
}
