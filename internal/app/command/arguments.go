package command

import (
	"slices"
	"strings"

	"github.com/urfave/cli/v2"
)

// Permute moves the flags of a command line before its other arguments, because urfave/cli
// stops reading flags at the first other argument. It does not move what comes after "--". A sentence that begins with
// the name of a command is a prompt.
func Permute(app *cli.App, args []string) []string {
	if len(args) == 0 {
		return args
	}
	out := []string{args[0]}
	rest := args[1:]
	flags, commands := app.Flags, app.Commands
	var values []string // that follow :::, where a command takes such
	for {
		next, ok := takeCommand(commands, flags, rest)
		if !ok || len(out) == 1 && isSentence(app, next, rest) {
			if len(out) == 1 {
				app.Commands = nil // the library would look for one behind -- too
			}
			out = append(out, flagsFirst(flags, rest)...)
			if !slices.Contains(out, "--") { // the value of a flag is missing
				return out
			}
			return append(out, values...)
		}
		if argumentsOf(next.command).lists {
			rest, values = beforeValues(rest)
		}
		// Flags before the name of a command are flags of that command.
		moved := append([]string{rest[next.at]}, rest[:next.at]...)
		out = append(out, moved[0])
		rest = append(moved[1:], rest[next.at+1:]...)
		flags, commands = next.command.Flags, next.command.Subcommands
	}
}

// arguments says what the arguments of a command are, where it matters to how the command line is read.
type arguments struct {
	files  bool // names of files
	folder bool // the name of a folder
	lists  bool // lists of values after :::
	prompt bool // a prompt
}

func argumentsOf(c *cli.Command) arguments {
	switch c.Name {
	case "batch":
		return arguments{files: true, lists: true}
	case "plan":
		return arguments{prompt: true}
	case "trust":
		return arguments{folder: true}
	}
	return arguments{}
}

// beforeValues splits args at the first ::: or such. What follows are values, even if one looks like a flag.
func beforeValues(args []string) (before, values []string) {
	for i, arg := range args {
		if arg == "--" {
			break
		}
		if IsSeparator(arg) {
			return args[:i:i], args[i:]
		}
	}
	return args, nil
}

// IsSeparator reports whether arg begins a list of values, as with GNU parallel.
func IsSeparator(arg string) bool {
	arg = strings.TrimSuffix(arg, "+")
	return arg == ":::" || arg == "::::"
}

// commandAt is a command and the index of its name in the arguments.
type commandAt struct {
	command *cli.Command
	at      int
}

// takeCommand finds the command in args: the first argument that is neither a flag nor the
// value of a flag. It returns false if that argument is no command.
func takeCommand(commands []*cli.Command, flags []cli.Flag, args []string) (commandAt, bool) {
	for i := 0; i < len(args); i++ {
		if args[i] == "--" {
			return commandAt{}, false
		}
		if isFlag(args[i]) {
			if takesValue(flags, args[i]) || slices.ContainsFunc(commands, func(c *cli.Command) bool {
				return takesValue(c.Flags, args[i])
			}) {
				i++
			}
			continue
		}
		for _, c := range commands {
			if c.HasName(args[i]) {
				return commandAt{c, i}, true
			}
		}
		return commandAt{}, false
	}
	return commandAt{}, false
}

// flagsFirst returns args with the flags and their values before the rest.
func flagsFirst(flags []cli.Flag, args []string) []string {
	var front, back []string
	for i := 0; i < len(args); i++ {
		arg := args[i]
		if bundled, last := unbundle(flags, arg); bundled != nil {
			front, arg = append(front, bundled...), last
		}
		switch {
		case arg == "--":
			back = append(back, args[i+1:]...)
			i = len(args)
		case !isFlag(arg):
			back = append(back, arg)
		default:
			if isNumbered(flags, arg) {
				front = append(front, arg[:2], arg[2:])
				continue
			}
			front = append(front, arg)
			if !takesValue(flags, arg) {
				continue
			}
			if i++; i == len(args) {
				return front // the library says what is missing
			}
			front = append(front, args[i])
		}
	}
	return append(append(front, "--"), back...)
}

// unbundle splits short flags that are written as one, like -kj4: into those that take no value, and the last one. It
// returns nil for anything else.
func unbundle(flags []cli.Flag, arg string) (bundled []string, last string) {
	if !isFlag(arg) || arg[1] == '-' || has(flags, arg) {
		return nil, ""
	}
	for rest := arg[1:]; ; rest = rest[1:] {
		last = "-" + rest
		if len(rest) == 1 && has(flags, last) || isNumbered(flags, last) {
			return bundled, last
		}
		if len(rest) < 2 || !has(flags, last[:2]) || takesValue(flags, last[:2]) {
			return nil, ""
		}
		bundled = append(bundled, last[:2])
	}
}

// isNumbered reports whether arg is a short flag joined with a number, like -j4, -j+2 or -j50%.
func isNumbered(flags []cli.Flag, arg string) bool {
	if len(arg) < 3 || arg[1] == '-' || !takesValue(flags, arg[:2]) {
		return false
	}
	number := strings.TrimSuffix(strings.TrimLeft(arg[2:], "+-"), "%")
	return number != "" && strings.Trim(number, "0123456789") == ""
}

// WantsJSON reports whether the flags in args ask for JSON. It also works for a command
// line that cannot be parsed, because the error about it must then be JSON too.
func WantsJSON(args []string) bool {
	for i, arg := range args {
		name, value, _ := strings.Cut(strings.TrimLeft(arg, "-"), "=")
		switch {
		case arg == "--":
			return false
		case !isFlag(arg):
		case name == "json":
			return value != "false"
		case name == "output-format":
			if value == "" && i+1 < len(args) {
				value = args[i+1]
			}
			return strings.Contains(value, "json")
		}
	}
	return false
}

func isFlag(arg string) bool { return len(arg) > 1 && arg[0] == '-' }

// takesValue reports whether arg is a flag whose value is the next argument.
func takesValue(flags []cli.Flag, arg string) bool {
	f, ok := find(flags, arg).(cli.DocGenerationFlag)
	return ok && f.TakesValue() && !strings.Contains(arg, "=")
}

// find returns the one of flags that arg names, or nil.
func find(flags []cli.Flag, arg string) cli.Flag {
	name, _, _ := strings.Cut(strings.TrimLeft(arg, "-"), "=")
	for _, f := range flags {
		if slices.Contains(f.Names(), name) {
			return f
		}
	}
	return nil
}
