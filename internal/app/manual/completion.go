package manual

import (
	_ "embed"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"qq/internal/config"
)

// CompleteCommand is the name of the hidden command that the scripts of the shells call with the words of a command
// line.
const CompleteCommand = "__complete"

// Scripts that connect a shell with [CompleteCommand].
var (
	//go:embed qq.bash
	Bash string
	//go:embed qq.zsh
	Zsh string
	//go:embed qq.fish
	Fish string
)

// Kind is what a word of a command line names.
type Kind int

// Kinds of words.
const (
	Nothing Kind = iota // a text, a number, a new name
	Words               // one of a few
	Files
	Folders
	Agents
	AgentsOrFiles
	Models
	Servers // that have models
	Runs    // and batches
	AtWork  // runs and batches
	Batches
	Unfinished // batches that are not complete
	Sessions
)

// Word is a word that may be at the end of a command line, with what it means.
type Word struct{ Text, Meaning string }

// Wanted is what may be at the end of a command line.
type Wanted struct {
	Kind   Kind
	Words  []Word // may be there besides what Kind says
	Prefix string // of all words, such as "--agent="
	Dir    string // the value of --cwd
}

// place is where the words of a command line lead to.
type place struct {
	commands []*cli.Command // of which one may follow
	flags    []cli.Flag
	path     string // such as "runs show"
	args     int    // words before that are neither flags nor commands
}

// Complete returns what may take the place of the last of words, which are a command line without its program.
func Complete(app *cli.App, words []string) Wanted {
	if len(words) == 0 {
		return Wanted{}
	}
	last := len(words) - 1
	at, dir := place{commands: app.Commands, flags: app.Flags}, ""
	for i := 0; i < last; i++ {
		word := words[i]
		f, name, value, joined := at.flag(word)
		switch {
		case word == "--":
			at.args++
			return Wanted{Kind: at.argument(), Dir: dir}
		case f == nil && !strings.HasPrefix(word, "-"):
			at.enter(word)
			continue
		case f == nil || !takesValue(f) && !joined:
			continue
		case !joined && i+1 == last:
			return valuesOf(f, "", dir)
		case !joined:
			i++
			value = words[i]
		}
		if name == "cwd" {
			dir = value
		}
	}
	if f, _, _, joined := at.flag(words[last]); f != nil && joined {
		prefix, _, _ := strings.Cut(words[last], "=")
		return valuesOf(f, prefix+"=", dir)
	}
	w := Wanted{Dir: dir}
	if strings.HasPrefix(words[last], "-") {
		for _, f := range at.flags {
			w.Words = append(w.Words, Word{"--" + f.Names()[0], usage(f)})
		}
		return Wanted{Kind: Words, Words: append(w.Words, Word{"--help", "show help"}), Dir: dir}
	}
	if at.args == 0 {
		for _, c := range at.commands {
			if !c.Hidden {
				w.Words = append(w.Words, Word{c.Name, c.Usage})
			}
		}
	}
	if at.path == "" && at.args == 0 {
		w.Words = append(w.Words, Word{"help", "show the help of a command"})
	}
	w.Kind = at.argument()
	if at.path == "completion" && at.args == 0 {
		w.Words = []Word{{"bash", ""}, {"fish", ""}, {"zsh", ""}}
	}
	return w
}

// enter goes on with a word that is no flag.
func (p *place) enter(word string) {
	if p.args > 0 {
		p.args++
		return
	}
	if p.path == "" && word == "help" {
		p.path, p.flags = "help", nil
		return
	}
	for _, c := range p.commands {
		if c.HasName(word) {
			p.commands, p.path = c.Subcommands, strings.TrimSpace(p.path+" "+word)
			if !strings.HasPrefix(p.path, "help") {
				p.flags = c.Flags
			}
			return
		}
	}
	p.args++
}

// flag returns the flag that a word names, with its first name and its value if that is joined by =.
func (p *place) flag(word string) (f cli.Flag, name, value string, joined bool) {
	name, value, joined = strings.Cut(strings.TrimLeft(word, "-"), "=")
	if !strings.HasPrefix(word, "-") || name == "" {
		return nil, "", "", false
	}
	for _, f := range p.flags {
		if slices.Contains(f.Names(), name) {
			return f, f.Names()[0], value, joined
		}
	}
	return nil, name, value, joined
}

func takesValue(f cli.Flag) bool {
	d, ok := f.(cli.DocGenerationFlag)
	return ok && d.TakesValue()
}

func usage(f cli.Flag) string {
	d, _ := f.(cli.DocGenerationFlag)
	return d.GetUsage()
}

// argument returns what an argument of the command is.
func (p *place) argument() Kind {
	switch p.path {
	case "":
		if p.args == 0 {
			return Nothing // a command
		}
		return Files
	case "batch":
		return Files
	case "agents show":
		return p.first(Agents)
	case "agents check":
		return AgentsOrFiles
	case "runs show", "runs tree", "runs replay":
		return p.first(Runs)
	case "runs diff":
		return Runs
	case "runs cancel":
		return p.first(AtWork)
	case "sessions show":
		return p.first(Sessions)
	case "sessions rm":
		return Sessions
	case "models show", "models test", "models pull", "setup":
		return p.first(Models)
	case "trust":
		return p.first(Folders)
	}
	return Nothing
}

// first returns kind for the first argument of a command, which takes one.
func (p *place) first(kind Kind) Kind {
	if p.args > 0 {
		return Nothing
	}
	return kind
}

// valuesOf returns what the value of a flag may be.
func valuesOf(f cli.Flag, prefix, dir string) Wanted {
	w := Wanted{Prefix: prefix, Dir: dir, Kind: kindOf(f.Names()[0])}
	for _, text := range choices(f) {
		w.Words, w.Kind = append(w.Words, Word{prefix + text, ""}), Words
	}
	return w
}

// kindOf returns what the value of a flag names.
func kindOf(flag string) Kind {
	switch flag {
	case "agent":
		return Agents
	case "model":
		return Models
	case "server":
		return Servers
	case "session":
		return Sessions
	case "batch":
		return Batches
	case "resume", "resume-failed":
		return Unfinished
	case "message-file", "schema", "input", "joblog", "output":
		return Files
	case "cwd", "results":
		return Folders
	}
	return Nothing
}

// choices returns the values of a flag that takes one of a few.
func choices(f cli.Flag) []string {
	if c, ok := f.(interface{ Choices() []string }); ok && c.Choices() != nil {
		return c.Choices()
	}
	for _, s := range config.Settings() {
		if s.Flag == f.Names()[0] {
			return s.Values
		}
	}
	return nil
}
