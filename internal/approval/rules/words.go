package rules

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"mvdan.cc/sh/v3/syntax"
)

const (
	// maxCommand is the longest command, in bytes, that a rule is compared with.
	maxCommand = 16 << 10
	maxNested  = 4 // commands in the words of commands
)

// Words returns the words of a command that is certainly one call of one program: one
// statement, without redirections and assignments, all words literal. The error says what
// is in the way.
func Words(command string) ([]string, error) {
	file, err := parse(strings.Trim(command, " \t\n"), "")
	if err != nil {
		return nil, err
	}
	if len(file.Stmts) != 1 || len(file.Last) > 0 {
		return nil, errors.New("it is not one command")
	}
	s := file.Stmts[0]
	call, ok := s.Cmd.(*syntax.CallExpr)
	switch {
	case !ok, s.Negated, s.Background, s.Coprocess, s.Disown, s.Semicolon.IsValid(), len(s.Comments) > 0:
		return nil, errors.New("it is not one call of a program")
	case len(s.Redirs) > 0:
		return nil, errors.New("it has a redirection")
	case len(call.Assigns) > 0:
		return nil, errors.New("it sets a variable")
	}
	words := make([]string, len(call.Args))
	for i, arg := range call.Args {
		if words[i], ok = literal(arg); !ok {
			return nil, errors.New("a word of it is not literal")
		}
	}
	if words[0] == "" {
		return nil, errors.New("it names no program")
	}
	return words, nil
}

// parse parses a command as bash does, which knows more than other shells: what is special to any
// of them is then not literal. Control characters are refused first, because some parse silently,
// except those in accepted.
func parse(command, accepted string) (*syntax.File, error) {
	control := func(r rune) bool { return unicode.IsControl(r) && !strings.ContainsRune(accepted, r) }
	switch {
	case len(command) > maxCommand:
		return nil, fmt.Errorf("it has more than %d bytes", maxCommand)
	case !utf8.ValidString(command), strings.ContainsFunc(command, control):
		return nil, errors.New("it has a control character")
	}
	file, err := syntax.NewParser(syntax.KeepComments(true)).Parse(strings.NewReader(command), "")
	if err != nil {
		return nil, errors.New("it cannot be parsed")
	}
	return file, nil
}

// literal returns the text of a word that no shell expands, quotes taken off.
func literal(w *syntax.Word) (string, bool) {
	var b strings.Builder
	for i, part := range w.Parts {
		switch p := part.(type) {
		case *syntax.Lit:
			if strings.ContainsAny(p.Value, `\*?[{}`) || i == 0 && strings.HasPrefix(p.Value, "~") {
				return "", false
			}
			b.WriteString(p.Value)
		case *syntax.SglQuoted:
			if p.Dollar {
				return "", false
			}
			b.WriteString(p.Value)
		case *syntax.DblQuoted:
			for _, inner := range p.Parts {
				lit, ok := inner.(*syntax.Lit)
				if !ok || p.Dollar || strings.Contains(lit.Value, `\`) {
					return "", false
				}
				b.WriteString(lit.Value)
			}
		default:
			return "", false
		}
	}
	return b.String(), true
}

// quoted returns words as one command line, and false if a word cannot be written literally.
func quoted(words []string) (string, bool) {
	out := make([]string, len(words))
	for i, w := range words {
		special := func(r rune) bool {
			return !strings.ContainsRune("_@%+=:,./-", r) && !unicode.IsLetter(r) && !unicode.IsDigit(r)
		}
		switch {
		case w != "" && !strings.ContainsFunc(w, special):
			out[i] = w
		case !strings.Contains(w, "'"):
			out[i] = "'" + w + "'"
		case !strings.ContainsAny(w, "\"\\$`"):
			out[i] = `"` + w + `"`
		default:
			return "", false
		}
	}
	return strings.Join(out, " "), true
}

// calls is the parsed pattern of a command: its first words, and whether more may follow.
type calls struct {
	words []string
	open  bool
}

// parseCalls parses the pattern of a command. A * at its end, or :* as other agent programs write
// it, stands for further words.
func parseCalls(pattern string) (calls, error) {
	text, open := strings.CutSuffix(pattern, "*")
	if open {
		text = strings.TrimSuffix(text, ":")
	}
	words, err := Words(text)
	if err != nil {
		return calls{}, fmt.Errorf("its pattern must be literal words, with a * at the end for more of them: %w", err)
	}
	return calls{words, open}, nil
}

// admits reports whether words are a call of the pattern.
func (c calls) admits(words []string) bool {
	n := len(c.words)
	if len(words) < n || !slices.Equal(words[:n], c.words) {
		return false
	}
	return len(words) == n || c.open && admitsRest(words, n)
}

// local reports whether what words start depends on the folder that they run in.
func local(words []string) bool {
	return strings.Contains(words[0], "/") && !path.IsAbs(words[0]) || launches(program(words))
}

// Caution says what a rule allows that a person may not expect, or "".
func (r Rule) Caution() string {
	c, err := parseCalls(r.Pattern)
	if subjectOf(r.Tool) != command || err != nil || !c.open {
		return ""
	}
	_, listed := optionsOf(c.words)
	switch name := program(c.words); {
	case launches(name):
		return fmt.Sprintf("the rule %s allows any program, because %s runs what its arguments name", r, name)
	case subcommands(name) && len(c.words) > 1 && !listed:
		return fmt.Sprintf("the rule %s allows only %s: qq does not know what further words would start", r,
			strings.Join(c.words, " "))
	case !isKnown(name):
		return fmt.Sprintf("the rule %s allows any option: qq does not know which ones of %s are harmless", r, name)
	}
	return ""
}
