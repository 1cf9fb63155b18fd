// Package program reads the key "runs" of a definition: the other agent program that does the work of an agent.
//
// The value is the name of a program that is known, such as "claude", or "acp" with the command line of a program that
// speaks the Agent Client Protocol: "acp my-agent --acp". A command line is words, with quotes around those that
// contain spaces. No shell reads it.
package program

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// The names of the programs.
const (
	Claude   = "claude"
	Codex    = "codex"
	Gemini   = "gemini"
	OpenCode = "opencode"
	Qwen     = "qwen"
	ACP      = "acp" // any program that speaks the Agent Client Protocol; its command line follows
)

// Limits of a command line.
const (
	maxWords = 64
	maxText  = 4096 // bytes
)

// Program is another agent program. The zero value means that there is none.
type Program struct {
	Name string `json:"name"`
	// Words are the command line of an [ACP] program, at least one word; nil for the others.
	Words []string `json:"words,omitempty"`
}

// Names returns the names of the programs that are known.
func Names() []string { return []string{Claude, Codex, Gemini, OpenCode, Qwen, ACP} }

// Executable returns the program to start, a path or a name to be looked up in PATH.
func (p Program) Executable() string {
	if p.Name == ACP && len(p.Words) > 0 {
		return p.Words[0]
	}
	return p.Name
}

// Find returns the path of the executable, looked up in the folders of a PATH. Folders that are not absolute do not
// count: the program would be another one in each working directory.
func (p Program) Find(path string) (string, error) {
	name := p.Executable()
	candidates := []string{name}
	if !strings.Contains(name, "/") {
		candidates = nil
		for _, dir := range filepath.SplitList(path) {
			candidates = append(candidates, filepath.Join(dir, name))
		}
	}
	for _, file := range candidates {
		info, err := os.Stat(file)
		if err == nil && filepath.IsAbs(file) && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return file, nil
		}
	}
	return "", fmt.Errorf("the program %s is not found\nhint: %s", name, p.Install())
}

// Install says how a person gets the program.
func (p Program) Install() string {
	packages := map[string]string{
		Claude: "@anthropic-ai/claude-code", Codex: "@openai/codex", Gemini: "@google/gemini-cli",
		OpenCode: "opencode-ai", Qwen: "@qwen-code/qwen-code",
	}
	if name := packages[p.Name]; name != "" {
		return "npm install -g " + name
	}
	return "install it, or name it with its path"
}

// Tools says which tools an agent has that p runs and whose definition names none.
func (p Program) Tools() string {
	if p.IsZero() {
		return "every tool"
	}
	return "those of the program that it runs, " + p.String()
}

// IsZero reports whether p is no program.
func (p Program) IsZero() bool { return p.Name == "" }

// String returns p as a definition names it.
func (p Program) String() string {
	text := p.Name
	for _, w := range p.Words {
		text += " " + quoted(w)
	}
	return text
}

// Equal reports whether p and q are the same program.
func (p Program) Equal(q Program) bool { return p.Name == q.Name && slices.Equal(p.Words, q.Words) }

// Parse reads the value of the key. The error says what is accepted.
func Parse(text string) (Program, error) {
	words, err := split(text)
	if err != nil {
		return Program{}, err
	}
	if len(words) == 0 {
		return Program{}, errors.New("is empty: " + known())
	}
	name, rest := words[0], words[1:]
	switch {
	case !slices.Contains(Names(), name):
		return Program{}, fmt.Errorf("%q is no program that is known: %s", name, known())
	case name == ACP && len(rest) == 0:
		return Program{}, errors.New("acp needs the command line of the program: acp COMMAND ARGUMENTS…")
	case name == ACP && strings.Contains(rest[0], "/") && !filepath.IsAbs(rest[0]):
		return Program{}, fmt.Errorf("acp %s: name the program alone, or with its whole path", rest[0])
	case name == ACP && strings.HasPrefix(rest[0], "-"):
		return Program{}, fmt.Errorf("acp needs the command line of the program, and %q is an option", rest[0])
	case name != ACP && len(rest) > 0:
		return Program{}, fmt.Errorf("%s takes no arguments: only acp has a command line", name)
	case name != ACP:
		rest = nil
	}
	return Program{Name: name, Words: rest}, nil
}

// known is the part of an error that lists the programs.
func known() string {
	return "claude, codex, gemini, opencode, qwen, or acp with a command line"
}

// split cuts text into words. Quotes, single or double, hold a word together; a backslash outside of single quotes
// takes the next character as it is.
func split(text string) (words []string, err error) {
	if len(text) > maxText {
		return nil, fmt.Errorf("is longer than %d bytes", maxText)
	}
	odd := func(r rune) bool { return !unicode.IsPrint(r) && r != '\t' }
	if !utf8.ValidString(text) || strings.ContainsFunc(text, odd) {
		return nil, errors.New("contains a character that cannot be printed")
	}
	var word strings.Builder
	begun, escaped, quote := false, false, rune(0)
	end := func() {
		if begun {
			words = append(words, word.String())
		}
		word.Reset()
		begun = false
	}
	for _, r := range text {
		switch {
		case escaped:
			word.WriteRune(r)
			escaped = false
		case r == '\\' && quote != '\'':
			begun, escaped = true, true
		case r == quote:
			quote = 0
		case quote != 0:
			word.WriteRune(r)
		case r == '\'' || r == '"':
			begun, quote = true, r
		case r == ' ' || r == '\t':
			end()
		default:
			begun = true
			word.WriteRune(r)
		}
	}
	if quote != 0 || escaped {
		return nil, errors.New("has a quote that is not closed")
	}
	end()
	if len(words) > maxWords {
		return nil, fmt.Errorf("has more than %d words", maxWords)
	}
	return words, nil
}

// quoted returns a word as split reads it.
func quoted(word string) string {
	if word != "" && !strings.ContainsAny(word, " \t'\"\\") {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
