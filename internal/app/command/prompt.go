package command

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"qq/internal/app/command/vocabulary"
	"qq/pkg/spelling"
)

// Helped turns "qq help COMMAND" into "qq COMMAND --help". "qq help me" is a prompt, and so is any longer sentence.
func Helped(app *cli.App, args []string) ([]string, error) {
	if len(args) < 2 || args[1] != "help" {
		return args, nil
	}
	asked := slices.DeleteFunc(slices.Clone(args[2:]), isFlag)
	commands, of := app.Commands, "qq"
	for i, word := range asked {
		at := slices.IndexFunc(commands, func(c *cli.Command) bool { return c.HasName(word) })
		if at >= 0 {
			commands, of = commands[at].Subcommands, of+" "+word
			continue
		}
		if len(asked) >= 3 || i == 0 && (vocabulary.IsPlain(word) || len(asked) == 2) || strings.Contains(word, " ") {
			return args, nil
		}
		near := spelling.Nearest(word, names(commands))
		if near != "" {
			near = strings.Replace(of, "qq", "qq help", 1) + " " + near
		}
		prompt := strings.Join(append([]string{"help"}, asked...), " ")
		return nil, Usagef(fmt.Sprintf("%s%s --help lists the commands; as a prompt it is: qq -m %q",
			spelling.DidYouMean(near), of, prompt), "%s has no command %q", of, word)
	}
	return append(append(args[:1:1], args[2:]...), "--help"), nil
}

// names returns the names of commands.
func names(commands []*cli.Command) (all []string) {
	for _, c := range commands {
		if !c.Hidden {
			all = append(all, c.Name)
		}
	}
	return all
}

// Mistaken returns an error if words, which are all that a person has typed besides the message of -m, are probably
// meant as a command, and nil if they are a prompt. So a typing error costs no model call. Meant as a command is
//
//   - ::: of GNU parallel as a word of its own;
//   - a word that is nearly "batch", and after it a file or a placeholder, or -m;
//   - a template with a placeholder and files that exist;
//   - one word that is nearly the name of a command: it differs in one letter or, if the command has six letters or
//     more, in two. The first letter is right, unless the only mistake is there;
//   - one word that is a command of other programs, such as "ls" or "login"; also with the id of a run, or with a
//     prompt in quotes, where such programs have these;
//   - two words, of which one is nearly the name of a command and the other is the name of its subcommand.
func Mistaken(commands []*cli.Command, message string, words []string) error {
	if at := slices.IndexFunc(words, IsSeparator); at >= 0 {
		hint := "write: qq batch -m 'Summarize {}' ::: VALUES"
		return Usagef(hint+"; a prompt with "+words[at]+" goes after --", "%s belongs to qq batch", words[at])
	}
	if len(words) == 0 {
		return nil
	}
	isBatch := func(c *cli.Command) bool { return c.Name == "batch" && vocabulary.Nearly(words[0], c.Name) }
	if meant := vocabulary.MistypedBatch(message, words[1:]); meant != "" && slices.ContainsFunc(commands, isBatch) {
		return Usagef("did you mean "+meant+"? a prompt that begins so goes after --", "%q is no command", words[0])
	}
	if meant := vocabulary.Batch(message, words); meant != "" {
		return Usagef("write: "+meant+"; a prompt with {} goes after --", "a template and files belong to qq batch")
	}
	if message != "" {
		return nil
	}
	hint := meantCommand(commands, strings.Fields(strings.Join(words, " ")))
	if hint == "" {
		hint = vocabulary.ElsewhereWith(words)
	}
	if hint == "" {
		return nil
	}
	prompt := strings.Join(words, " ")
	if !strings.HasSuffix(hint, "?") {
		hint += ";"
	}
	return Usagef(fmt.Sprintf("%s as a prompt it is: qq -m %q", hint, prompt), "%q is no command", prompt)
}

// meantCommand returns a hint if all that is typed is nearly a command, or is one of other programs.
func meantCommand(commands []*cli.Command, typed []string) string {
	if len(typed) == 0 || len(typed) > 2 {
		return ""
	}
	word := strings.ToLower(typed[0])
	for _, c := range commands {
		if !c.Hidden && vocabulary.Nearly(word, c.Name) &&
			(len(typed) == 1 || slices.Contains(names(c.Subcommands), typed[1])) {
			return "qq " + strings.Join(append([]string{c.Name}, typed[1:]...), " ") + " is a command"
		}
	}
	if len(typed) == 1 {
		return vocabulary.Elsewhere(word)
	}
	return ""
}

// isSentence reports whether a command line that names a command is a prompt all the same, like "version of go in
// go.mod". It is cautious: a prompt costs a model call, so anything else is a mistake in a call of the command, which
// then says how to ask a model. It is a sentence only if
//
//   - two words follow, or three a command that takes files, and one of them is plain ([vocabulary.IsPlain]); or a
//     command that takes none is followed by a word that makes a term of both, like "man page";
//   - the first of them is no subcommand, nor like one, nor a command of other programs, nor the id of a run. A
//     subcommand that only prints may be followed by a plain word and another one, like "runs show up twice";
//   - no flag is given that a prompt does not have, no -m or -f, and no --;
//   - none of them is a file, if the command takes files.
func isSentence(app *cli.App, named commandAt, args []string) bool {
	var words []string
	for i := 0; i < len(args); i++ {
		switch arg := args[i]; {
		case arg == "--":
			return false
		case i == named.at:
		case !isFlag(arg):
			words = append(words, arg)
		case !has(app.Flags, arg), slices.Contains(messageFlags, strings.TrimLeft(arg, "-")):
			return false
		case takesValue(app.Flags, arg):
			i++
		}
	}
	c, least := named.command, 2
	takes := argumentsOf(c)
	if takes.files {
		least = 3
	}
	isTerm := len(words) > 0 && vocabulary.IsTerm(c.Name, words[0])
	if c.Hidden || takes.prompt || !isTerm && (len(words) < least || !slices.ContainsFunc(words, vocabulary.IsPlain)) {
		return false
	}
	first, subs := words[0], names(c.Subcommands)
	switch {
	case slices.Contains(printing, first) && slices.Contains(subs, first):
		rest := words[1:]
		return len(rest) > 1 && vocabulary.IsPlain(rest[0]) && !slices.ContainsFunc(rest, func(word string) bool {
			return strings.ContainsAny(word, "0123456789") || vocabulary.IsFile(word)
		})
	case takes.files:
		return !slices.ContainsFunc(words, vocabulary.IsFile)
	case takes.folder:
		_, err := os.Stat(first)
		return err != nil
	}
	return !slices.Contains(subs, first) && spelling.Nearest(first, subs) == "" && vocabulary.Elsewhere(first) == "" &&
		!slices.Contains(vocabulary.Verbs, first) && (len(subs) == 0 || !strings.ContainsAny(first, "0123456789"))
}

// printing are the subcommands that only print.
var printing = []string{"list", "show", "tree", "check"}

// messageFlags are the flags that give a task without words.
var messageFlags = []string{"m", "message", "p", "prompt", "f", "message-file"}

// IsKnown reports whether arg is one of flags: --name, --name=value, -n, or -n joined with a number.
func IsKnown(flags []cli.Flag, arg string) bool {
	name, long := strings.CutPrefix(arg, "--")
	if !isFlag(arg) || !has(flags, arg) {
		return false
	}
	return long && len(name) > 1 || !long && (len(arg) == 2 || isNumbered(flags, arg))
}

// has reports whether arg is one of flags.
func has(flags []cli.Flag, arg string) bool { return isNumbered(flags, arg) || find(flags, arg) != nil }

// NoCommand returns the error for a command that got a word that is none of its subcommands.
func NoCommand(c *cli.Context) error {
	word := c.Args().First()
	var accepted []string
	for _, sub := range c.Command.Subcommands {
		how := sub.Name
		if !strings.HasPrefix(sub.ArgsUsage, "[") {
			how = strings.TrimSpace(how + " " + sub.ArgsUsage)
		}
		accepted = append(accepted, how)
	}
	subs := names(c.Command.Subcommands)
	near := spelling.Nearest(word, subs)
	if near != "" {
		near = c.Command.HelpName + " " + near
	}
	hint := spelling.DidYouMean(near) + "accepted is " + OneOf(accepted)
	if c.NArg() > 1 {
		hint += AsPrompt(c)
	}
	return Usagef(hint, "%s has no command %q", c.Command.HelpName, word)
}

// OneOf returns words as a person lists them: "text, json or jsonl".
func OneOf(words []string) string {
	if last := len(words) - 1; last > 0 {
		return strings.Join(words[:last], ", ") + " or " + words[last]
	}
	return strings.Join(words, "")
}
