package agent

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"qq/internal/agent/loop"
	"qq/internal/approval"
	"qq/internal/tools/shell"
	"qq/pkg/task"
	"qq/pkg/tool"
)

// strict keeps account of what --strict-targets refused to a run. It implements [shell.Bound].
type strict struct {
	boxed   []string // targets that the sandbox keeps commands to; nil if it does not
	writes  bool     // the agent has the tool write_file
	missing []string // targets of the task that were not there at first

	mu       sync.Mutex
	files    []string // that tools did not change
	commands []string // lines that commands said
}

// newStrict returns the account of r.
func (r *run) newStrict() *strict {
	s := &strict{boxed: r.boxed()}
	if s.boxed != nil {
		s.missing = slices.DeleteFunc(slices.Clone(r.job.Targets), r.exists)
	}
	return s
}

// bound returns what commands are bound by; nil means no targets.
func (r *run) bound() shell.Bound {
	if r.strict.boxed == nil {
		return nil
	}
	return r.strict
}

// boxed returns the targets that the sandbox keeps the commands of the agent to; nil if it does not.
func (r *run) boxed() []string {
	n := len(r.Setup.Bounds)
	if n == r.Setup.Joined || len(r.CommandRules(r.Process.Dir).Write) == 0 { // who may only read writes nowhere
		return nil
	}
	return r.Setup.Bounds[n-1].Targets
}

// exists reports whether a target is there. A glob is taken for one that is, but for all that is in a folder.
func (r *run) exists(target string) bool {
	if target = strings.TrimSuffix(target, "/**"); strings.ContainsAny(target, `*?[{\`) {
		return true
	}
	_, err := r.root.Lstat(filepath.FromSlash(strings.TrimSuffix(target, "/")))
	return !errors.Is(err, os.ErrNotExist)
}

// Refused implements [shell.Bound].
func (s *strict) Refused(lines []string) (hint string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.commands = append(s.commands, lines...)
	return "--strict-targets: commands can change only targets that exist (of " +
		task.Shorten(strings.Join(s.boxed, ", "), 200) + "). " + s.instead() +
		" No command writes .git, .env and other files that programs obey"
}

// instead says how an agent makes and replaces files that commands cannot.
func (s *strict) instead() string {
	if s.writes {
		return "To make or replace a target, use write_file or edit_file: commands such as mkdir, mv and sed -i cannot."
	}
	return "Commands such as mkdir, mv and sed -i cannot make or replace a target: if the task needs that, say so in " +
		"your answer."
}

// noting is a gate that notes which changes the targets bar.
type noting struct {
	loop.Gate
	strict *strict
}

// Admit implements [loop.Gate].
func (n noting) Admit(ctx context.Context, c tool.Call) (tool.Tool, context.Context, error) {
	t, ctx, err := n.Gate.Admit(ctx, c)
	if barred, ok := errors.AsType[*approval.BarredError](err); ok {
		n.strict.mu.Lock()
		defer n.strict.mu.Unlock()
		n.strict.files = append(n.strict.files, barred.Path)
	}
	return t, ctx, err
}

// warnings says what was refused, and which targets nobody made although commands ran.
func (s *strict) warnings(r *run) (all []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.files) > 0 {
		all = append(all, "--strict-targets: refused to change "+some(s.files, ", "))
	}
	if len(s.commands) > 0 {
		all = append(all, "--strict-targets: commands could not write: "+some(s.commands, " | "))
	}
	if did := r.deeds.did.OrNil(); did == nil || len(did.Commands) == 0 {
		return all
	}
	if left := slices.DeleteFunc(s.missing, r.exists); len(left) > 0 {
		all = append(all, "--strict-targets: targets that were not made: "+some(left, ", ")+
			"; commands can make one only in a copy of their own (--isolate auto)")
	}
	return all
}

// some names the first of several texts, each of them once.
func some(texts []string, between string) string {
	const most = 5
	var names []string
	for _, text := range texts {
		if text = task.Shorten(task.Line(text), 120); !slices.Contains(names, text) {
			names = append(names, text)
		}
	}
	if n := len(names) - most; n > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:most], between), n)
	}
	return strings.Join(names, between)
}
