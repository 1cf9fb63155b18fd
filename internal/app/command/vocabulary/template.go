package vocabulary

import (
	"cmp"
	"os"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// placeholders are those that a template may have for any input.
var placeholders = []string{"{}", "{/}", "{//}", "{.}", "{/.}", "{#}", "{%}"}

// HasPlaceholder reports whether text has a placeholder of a batch. The braces of "struct{}" are none.
func HasPlaceholder(text string) bool {
	return slices.ContainsFunc(placeholders, func(p string) bool {
		before, _, found := strings.Cut(text, p)
		last, _ := utf8.DecodeLastRuneInString(before)
		return found && !unicode.IsLetter(last) && !unicode.IsDigit(last) && last != ']' && last != ')'
	})
}

// Batch returns the call of qq batch that was probably meant by words, and by message if -m was given: a template with
// a placeholder, and then nothing but files, of which one exists. It returns "" if they are something else.
func Batch(message string, words []string) string {
	template, files := message, words
	if message == "" {
		at := slices.IndexFunc(words, Exists)
		if at > 0 && strings.Contains(words[0], " ") { // it is in quotes
			at = 1
		}
		at = max(at, 0)
		template, files = strings.Join(words[:at], " "), words[at:]
	}
	isOther := func(word string) bool { return !Exists(word) && !IsFile(word) }
	if !HasPlaceholder(template) || !slices.ContainsFunc(files, Exists) || slices.ContainsFunc(files, isOther) {
		return ""
	}
	return Call(template, files)
}

// WithoutFlag returns the call of qq batch that was probably meant by args, the arguments of one without -m that begin
// with a template. It returns "" if they do not.
func WithoutFlag(args []string) string {
	at := slices.IndexFunc(args, Exists)
	switch {
	case len(args) == 0 || at == 0:
		return ""
	case at > 0 && !slices.ContainsFunc(args[:at], IsFile):
		return Call(strings.Join(args[:at], " "), args[at:])
	case at < 0 && HasPlaceholder(args[0]):
		return Call(args[0], []string{"FILES"})
	}
	return Batch("", args)
}

// Unquoted returns the whole template if the shell has split one without quotes: template is its first word, and args
// go on with it. Otherwise it returns "".
func Unquoted(template string, args []string) string {
	end := slices.IndexFunc(args, func(arg string) bool { return IsName(arg) && !HasPlaceholder(arg) })
	words := args
	if end >= 0 {
		words = args[:end]
	}
	if template == "" || strings.Contains(template, " ") || len(words) == 0 ||
		end < 0 && !slices.ContainsFunc(words, HasPlaceholder) {
		return ""
	}
	return strings.Join(append([]string{template}, words...), " ")
}

// IsName reports whether word is a file or folder, or looks like a file.
func IsName(word string) bool { return Exists(word) || IsFile(word) }

// Call returns the call of qq batch with a template and inputs, as it is typed. Of many inputs it has the first ones.
func Call(template string, inputs []string) string {
	const most = 2
	words := []string{"qq batch -m", ShellWord(template)}
	for _, in := range inputs[:min(len(inputs), most)] {
		words = append(words, ShellWord(in))
	}
	if len(inputs) > most {
		words = append(words, "…")
	}
	return strings.Join(words, " ")
}

// Exists reports whether there is a file or folder of that name.
func Exists(name string) bool {
	_, err := os.Stat(name)
	return err == nil
}

// ShellWord returns s as one word of a shell.
func ShellWord(s string) string {
	isSafe := func(r rune) bool {
		return strings.ContainsRune("/._:+,-", r) || unicode.IsLetter(r) || unicode.IsDigit(r)
	}
	if s != "" && !strings.ContainsFunc(s, func(r rune) bool { return !isSafe(r) }) {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// MistypedBatch returns the call of qq batch that was meant if the name of the command was mistyped and words are the
// rest of the command line. It returns "" if they do not look like the rest of such a call.
func MistypedBatch(message string, words []string) string {
	if message != "" {
		return Call(message, words)
	}
	if !slices.ContainsFunc(words, func(word string) bool { return HasPlaceholder(word) || IsFile(word) }) {
		return ""
	}
	return cmp.Or(Batch("", words), "qq batch")
}
