// Package checkout asks a person whether the files of a checkout may configure qq, and is the command qq trust.
//
// Flow: [command.Checkout] finds what the files claim. A command that runs agents calls [Ask] before its first work;
// qq trust asks at any time, and lists and removes decisions. Without a person who answers, nothing is trusted.
package checkout

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/urfave/cli/v2"

	"qq/internal/app/command"
	"qq/internal/app/command/vocabulary"
	"qq/internal/app/console/template"
	"qq/internal/app/guides"
	"qq/internal/app/output"
	"qq/internal/approval/dialog"
	"qq/internal/approval/rules"
	"qq/internal/config/trust"
	"qq/pkg/task"
)

// timeout is how long a person may take to answer.
const timeout = 60 * time.Second

// maxClaims is about how many claims a person is asked at once. The lines of .env are fewer.
const maxClaims = 100

// Reasons not to ask.
var (
	errNobody = errors.New("nobody can be asked here")
	errMany   = fmt.Errorf("these are more than %d lines and agents", maxClaims)
)

// Ask asks once whether the claims that nobody has decided about may count, if there is a person at the terminal. It
// stores the answer. Those that a flag overrides now are shown too: with the answer they count later. A
// claim that was refused or that cannot be trusted is not asked about, and nobody is asked before a dry run.
func Ask(ctx context.Context, i *command.Invocation, dryRun bool) error {
	claims := slices.DeleteFunc(claimsOf(i.Checkout), func(c command.Claim) bool {
		return c.State == trust.Refused || c.State == trust.Trusted || c.Outside()
	})
	counts := func(c command.Claim) bool { return !c.Overridden }
	if dryRun || !slices.ContainsFunc(claims, counts) {
		return nil // what is overridden waits for a run in which it is not
	}
	trusted, err := ask(ctx, i, claims)
	if err != nil {
		return nil // nothing is decided
	}
	if err := i.Checkout.Decide(claims, trusted); err != nil {
		i.Say("the answer counts for this run only: %v", err)
	}
	return i.Checkout.Settle()
}

// claimsOf returns what the files of a checkout claim, AGENTS.md included.
func claimsOf(o *command.Checkout) []command.Claim {
	claims := o.Claims()
	if o.Settings.AgentsMD == "off" {
		return claims
	}
	for _, g := range guides.Of(o.Dir, o.Store) {
		if g.Path == guides.Name { // those above belong to other folders
			claims = append(claims, o.Claim(g.Path, g.Sum, g.Brief(), "tells every agent how to work here"))
		}
	}
	return claims
}

// allOf returns what the files of a checkout claim, with the slash commands of the console. No run asks about these.
func allOf(o *command.Checkout) []command.Claim {
	claims := claimsOf(o)
	for _, t := range template.Of(o.Dir) {
		claims = append(claims, o.Claim(t.File, t.Sum, t.Text, "is the command /"+t.Name+" of the console"))
	}
	return claims
}

// ask shows claims and returns the answer of a person. Commands of agents and CI have nobody to ask.
func ask(ctx context.Context, i *command.Invocation, claims []command.Claim) (trusted bool, err error) {
	if i.Checkout.Settings.Depth > 0 || inCI(i.Env) {
		return false, errNobody
	}
	if len(claims) > maxClaims {
		return false, errMany
	}
	terminal, err := dialog.OpenTerminal(i.Err.Terminal(), i.Coloured(i.Err), i.Screen)
	if err != nil {
		return false, errNobody
	}
	defer terminal.Close()
	wait := timeout
	if set := i.Checkout.Settings; strings.HasPrefix(set.Source("QQ_CHILD_TIMEOUT"), "flag ") && set.ChildTimeout > 0 {
		wait = min(wait, set.ChildTimeout)
	}
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	return terminal.Confirm(ctx, dialog.Confirmation{
		Head: "Files in " + i.Checkout.Dir + " want to configure qq:", Lines: lines(claims, command.Claim.Line),
		Whole: lines(claims, command.Claim.WholeLine), Question: "Trust " + files(claims) + " until it changes?",
	})
}

// inCI reports whether CI says that this is a run of continuous integration.
func inCI(env command.Environment) bool {
	yes, err := strconv.ParseBool(env.Get("CI"))
	return yes || err != nil && env.Get("CI") != ""
}

// lines returns what claims say, a line each: the agents, the settings, and next to the question where text goes.
func lines(claims []command.Claim, line func(command.Claim) string) (all []string) {
	rank := func(c command.Claim) (n int) {
		if c.Setting != "" {
			n = 2
		}
		if c.Sends() {
			n++
		}
		return n
	}
	claims = slices.Clone(claims)
	slices.SortStableFunc(claims, func(a, b command.Claim) int { return rank(a) - rank(b) })
	for _, c := range claims {
		all = append(all, line(c))
	}
	return all
}

// files names the files of claims.
func files(claims []command.Claim) string {
	var names []string
	for _, c := range claims {
		if !slices.Contains(names, c.File) {
			names = append(names, c.File)
		}
	}
	const most = 5
	if more := len(names) - most; more > 0 {
		names = append(names[:most], fmt.Sprintf("%d more files", more))
	}
	return command.Quoted(task.Shorten(strings.Join(names, ", "), 300))
}

// Command makes the command qq trust.
func Command(i *command.Invocation) *cli.Command {
	return &cli.Command{
		Name: "trust", Usage: "let the files of a checkout configure qq, after a look at them",
		ArgsUsage: "[DIR | FILE]",
		Description: "Shows the lines of .env and the agents of a checkout that count only if you trust them, " +
			"and asks. They count until their file changes. Of a FILE with tasks it shows the checks, which are " +
			"commands.",
		Flags: append([]cli.Flag{
			&cli.BoolFlag{Name: "yes", Usage: "trust them without a question"},
			&cli.BoolFlag{Name: "list", Usage: "list what was decided about all folders"},
			&cli.BoolFlag{Name: "remove", Usage: "forget what was decided about DIR"},
		}, command.LookFlags()...),
		Action: func(c *cli.Context) error { return run(i, c) },
	}
}

func run(i *command.Invocation, c *cli.Context) error {
	if c.NArg() > 1 {
		return command.Usagef("for example: qq trust ~/src/project", "qq trust takes one folder or file")
	}
	dir := c.Args().First()
	if dir != "" && !c.Bool("remove") {
		if c.IsSet("cwd") {
			return command.Usagef("give the folder once", "the folder is given as %s and with -C", dir)
		}
		if info, err := os.Stat(dir); err == nil && !info.IsDir() {
			return trustFile(i, c, dir)
		} else if err != nil {
			return command.Usagef("qq trust takes a folder that exists, by default the working directory", "%v", err)
		}
		if err := c.Set("cwd", dir); err != nil {
			return err
		}
	}
	open := i.OpenAnyway
	if c.Bool("list") || c.Bool("remove") {
		open = i.OpenBare
	}
	o, err := open(c)
	if o == nil {
		return err // other mistakes are in what is trusted, and can be looked at
	}
	if o.Settings.Depth > 0 {
		return command.Usagef("run qq trust yourself", "the command of an agent cannot decide what is trusted")
	}
	switch {
	case c.Bool("list"):
		return list(i, o.Store, c.Bool("json"))
	case c.Bool("remove"):
		if dir == "" {
			dir = o.Dir
		}
		err := o.Store.Remove(dir)
		if errors.Is(err, fs.ErrNotExist) {
			return command.Usagef("qq trust --list shows the folders", "nothing was decided about %s", dir)
		}
		return err
	}
	if o.Broken != nil && len(allOf(o)) == 0 {
		return command.Usage(o.Broken)
	}
	// The other files can be decided about, then a broken .env is an error.
	named := cmp.Or(dir, c.String("cwd"))
	return cmp.Or(decide(c.Context, i, allOf(o), named, c.Bool("yes")), command.Usage(o.Broken))
}

// mostShown is how many bytes of lines are printed whole where nobody can be asked; of more, each is cut.
const mostShown = 64 << 10

// decide shows claims of the checkout and stores whether they are trusted. named is the folder or file as the person
// named it; "" is the working directory.
func decide(ctx context.Context, i *command.Invocation, claims []command.Claim, named string, yes bool) error {
	if len(claims) == 0 {
		i.Note("nothing in %s needs trust", i.Checkout.Dir)
		return nil
	}
	all := strings.Join(lines(claims, command.Claim.Line), "\n") + "\n"
	if !slices.ContainsFunc(claims, func(c command.Claim) bool { return c.State != trust.Trusted }) {
		i.Note("trusted already: %s", files(claims))
		_, err := i.Out.WriteString(all)
		return output.WriteError(err)
	}
	trusted, err := yes, error(nil)
	if !yes {
		trusted, err = ask(ctx, i, claims)
	}
	unasked := errors.Is(err, errNobody) || errors.Is(err, errMany)
	if yes || unasked {
		if whole := strings.Join(lines(claims, command.Claim.WholeLine), "\n") + "\n"; len(whole) <= mostShown {
			all = whole
		}
		if _, err := i.Out.WriteString(all); err != nil {
			return output.WriteError(err)
		}
	}
	switch {
	case unasked:
		if named != "" {
			named = vocabulary.ShellWord(named) + " "
		}
		return command.Usagef("read the lines, then: qq trust "+named+"--yes", "nothing is trusted: %v", err)
	case err != nil:
		return fmt.Errorf("nothing is trusted: %w", err)
	}
	if err := i.Checkout.Unreadable(); err != nil {
		return err
	}
	if trusted {
		if err := valid(i.Checkout); err != nil {
			return err // a person cannot want what then ends each run
		}
	}
	if err := i.Checkout.Decide(claims, trusted); err != nil {
		return err
	}
	if !trusted {
		i.Note("not trusted: %s", files(claims))
		return command.Said(1)
	}
	i.Note("trusted until it changes: %s", files(claims))
	return i.Checkout.Settle()
}

// valid returns an error if no agent could run in the checkout once its .env is trusted.
func valid(o *command.Checkout) error {
	set, err := o.Tried()
	if err != nil {
		return command.Usage(err)
	}
	for name, texts := range map[string][]string{"QQ_ALLOW": set.Allow, "QQ_DENY": set.Deny} {
		for _, text := range texts {
			if _, err := rules.Parse(text); err != nil && set.Source(name) == ".env" {
				problem, hint := task.Explain(err)
				return command.Usagef(hint, "%s (.env) %s", name, problem)
			}
		}
	}
	return nil
}

// list prints the decisions about all folders.
func list(i *command.Invocation, store trust.Store, asJSON bool) error {
	records, err := store.List()
	if asJSON {
		return errors.Join(output.WriteJSON(i.Out, append([]trust.Record{}, records...)), err)
	}
	w := tabwriter.NewWriter(i.Out, 0, 4, 2, ' ', 0)
	fmt.Fprintln(w, "FOLDER\tFILE\tDECISION\tWHEN")
	for _, r := range records {
		for _, name := range slices.Sorted(maps.Keys(r.Files)) {
			decision := map[bool]string{true: "trusted", false: "not trusted"}[r.Files[name].Trusted]
			when := r.Files[name].Time.Local().Format(time.DateTime)
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", command.Quoted(r.Dir), command.Quoted(name), decision, when)
		}
	}
	return errors.Join(output.WriteError(w.Flush()), err)
}
