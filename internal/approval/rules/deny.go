package rules

import (
	"path"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// anything is the token of a word whose text is not known before the command runs.
const anything = "\x00"

// guess says what a command has to do with the call that a denying rule names.
type guess int

const (
	excluded guess = iota // as far as its words say
	possible
	meant // its words mean it, or might be anything
)

// mayRun guesses whether a command runs a call of the pattern, anywhere in it. nested bounds how many scripts within
// scripts it reads. What it cannot read is meant.
func (c calls) mayRun(command string, nested int) (g guess) {
	file, err := parse(command, "\n\t")
	if err != nil || nested == 0 {
		return meant
	}
	names := func(w *syntax.Word) bool {
		given, _ := text(w)
		return c.among(split(given), false)
	}
	syntax.Walk(file, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.CallExpr:
			if len(n.Args) > 0 {
				g = max(g, c.inCall(n.Args, nested))
			}
		case *syntax.Assign: // what a program reads in its environment, it may run
			if n.Value != nil && names(n.Value) {
				g = max(g, possible)
			}
		case *syntax.Redirect: // a shell may read it
			if n.Word != nil && names(n.Word) || n.Hdoc != nil && names(n.Hdoc) {
				g = meant
			}
		}
		return g < meant
	})
	return g
}

// inCall guesses whether one call is a call of the pattern, or starts one.
func (c calls) inCall(args []*syntax.Word, nested int) guess {
	words := make([]string, len(args))
	for i, arg := range args {
		var known bool
		if words[i], known = text(arg); !known {
			words[i] = anything
		}
	}
	if bare := strings.TrimLeft(words[0], "-+@:!"); bare != "" { // the signs of make and of vim
		words[0] = bare
	}
	name, all := program(words), unglued(words)
	var tokens []string
	for _, w := range all {
		tokens = append(tokens, split(w)...)
	}
	switch {
	case name == anything, c.among(tokens, starts(words)):
		return meant
	case interprets(name):
		return c.inScript(name, words[1:], nested)
	case unclear(words):
		return possible
	}
	return c.inArguments(all, nested)
}

// maxLetters is how many options of one letter may stand before the value of the last one: -qc'git push'.
const maxLetters = 5

// unglued returns words, and after each one that is an option what may be the value in it. Of a program that starts no
// others, only a value of several words may be a command. The shortest value comes first, because the words after it
// may belong to the longest: -S'git' push.
func unglued(words []string) (all []string) {
	launcher := starts(words)
	for _, w := range words {
		all = append(all, w)
		glued, option := strings.CutPrefix(w, "-")
		if !option || !launcher && !strings.ContainsAny(w, " \t\n") {
			continue
		}
		if _, value, ok := strings.Cut(w, "="); ok {
			all = append(all, value)
		}
		rest := strings.TrimLeft(glued, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789")
		for n := min(maxLetters, len(glued)-len(rest), len(glued)-1); n > 0; n-- {
			all = append(all, glued[n:])
		}
	}
	return all
}

// inArguments guesses whether the words of a call have a script for a shell that runs a call of the pattern.
func (c calls) inArguments(words []string, nested int) (g guess) {
	name := program(words)
	launcher := starts(words) && (name != "command" || !slices.Contains(words, "-v")) // it tells where a program is
	for i, w := range words {
		switch {
		case i == 0:
		case shells(path.Base(w)) && inline(words[i+1:]): // all further words are its own
			return max(g, c.inScript(path.Base(w), words[i+1:], nested))
		case shells(path.Base(w)) && launcher:
			return max(g, min(c.inScript(path.Base(w), words[i+1:], nested), possible))
		case launcher && w != "" && unclear(words[i:]):
			g = max(g, possible)
		case launcher && !runsCode(name) && strings.ContainsAny(w, " \t\n;&|"):
			g = max(g, c.mayRun(w, nested-1))
		}
	}
	return g
}

// inline reports whether a shell with these arguments has its script among them.
func inline(args []string) bool {
	return slices.ContainsFunc(args, func(a string) bool {
		long := strings.HasPrefix(a, "--")
		return long && strings.Contains(a, "command") || !long && strings.ContainsAny(a[:min(len(a), 1)], "-+") &&
			strings.Contains(a, "c")
	})
}

// inScript guesses whether a shell with these arguments runs a call of the pattern. It is meant if the script is its
// input, or is not known. What a file does is not known to qq.
func (c calls) inScript(shell string, args []string, nested int) (g guess) {
	var scripts []string
	for _, a := range args {
		_, value, valued := strings.Cut(a, "=")
		switch {
		case shell == "eval" || !strings.HasPrefix(a, "-"):
			scripts = append(scripts, a)
		case valued:
			scripts = append(scripts, value)
		}
	}
	switch {
	case len(scripts) == 0, slices.Contains(args, anything), slices.Contains(args, "-s"):
		return meant
	case shell == "eval": // it joins its words
		return c.mayRun(strings.Join(scripts, " "), nested-1)
	case shell == "busybox":
		return c.inArguments(append([]string{shell}, args...), nested)
	case !inline(args):
		return excluded
	}
	for _, s := range scripts {
		g = max(g, c.mayRun(s, nested-1))
	}
	return g
}

// among reports whether the words of the pattern are among tokens, in their order. Of a launcher
// any program is started by a word that is not known.
func (c calls) among(tokens []string, launcher bool) bool {
	name := strings.ToLower(program(c.words))
	i := slices.IndexFunc(tokens, func(t string) bool { // what follows a later one, follows the first one
		return (t != anything || launcher) && same(strings.ToLower(t), name)
	})
	return i >= 0 && (slices.Contains(tokens, "xargs") || follow(tokens[i+1:], c.words[1:]))
}

// pairs are options of one letter that programs commonly also have as a long one.
var pairs = map[string]string{"r": "--recursive", "f": "--force", "d": "--delete"}

// letters returns the options of one letter in a token that may be said in letters: -rf, --force. -R is -r.
func letters(token string) (all string) {
	if !strings.HasPrefix(token, "--") {
		return strings.ReplaceAll(strings.TrimPrefix(token, "-"), "R", "r")
	}
	for letter, long := range pairs {
		if len(token) > 2 && strings.HasPrefix(long, token) { // it may be abbreviated
			all += letter
		}
	}
	return all
}

// follow reports whether words are among tokens, in their order. The letters of -rf may be anywhere: -r --force.
func follow(tokens, words []string) bool {
	given := ""
	for _, t := range tokens {
		if strings.HasPrefix(t, "-") {
			given += letters(t)
		}
	}
	for _, word := range split(strings.Join(words, " ")) {
		if said := letters(word); strings.HasPrefix(word, "-") && said != "" && strings.Trim(said, given) == "" {
			continue
		}
		i := slices.IndexFunc(tokens, func(t string) bool { return same(t, word) })
		if i < 0 {
			return false
		}
		if tokens[i] == anything { // any number of words
			return true
		}
		tokens = tokens[i+1:]
	}
	return true
}

// same reports whether a token, which may be a glob, may be that word.
func same(token, word string) bool {
	if strings.Contains(token, "[") && token != "[" && token != "[[" { // [!a], [[:alpha:]] and more
		return true
	}
	if strings.HasPrefix(word, "--") && len(token) > 2 && strings.HasPrefix(word, token) { // an abbreviation
		return true
	}
	ok, err := path.Match(token, word)
	return token == anything || token == word || ok || err != nil && token != "["
}

// split returns the tokens of a text: what might be words of a command in it. The program git-push is git push. What
// follows a sign, as in +!git, may be a word by itself.
func split(text string) (tokens []string) {
	ends := func(r rune) bool { return strings.ContainsRune(" \t\n/'\"`;&|()<>$=,\\", r) }
	for t := range strings.FieldsFuncSeq(text, ends) {
		parts := []string{t}
		if last := t[strings.LastIndexAny(t, "+@:!")+1:]; last != "" && last != t {
			parts = append(parts, last)
		}
		for _, t := range parts {
			if subcommand, ok := strings.CutPrefix(strings.ToLower(t), "git-"); ok {
				tokens, t = append(tokens, "git"), subcommand
			}
			tokens = append(tokens, t)
		}
	}
	return tokens
}

// text returns what a word is after a shell has taken off quotes and backslashes. It may still be a
// glob. ok is false if only a part of it is known.
func text(w *syntax.Word) (s string, ok bool) {
	ok = true
	var b strings.Builder
	var add func(parts []syntax.WordPart)
	add = func(parts []syntax.WordPart) {
		for _, part := range parts {
			switch p := part.(type) {
			case *syntax.Lit:
				b.WriteString(strings.ReplaceAll(p.Value, `\`, ""))
				ok = ok && !strings.Contains(p.Value, "{")
			case *syntax.SglQuoted:
				b.WriteString(p.Value)
				ok = ok && !p.Dollar
			case *syntax.DblQuoted:
				add(p.Parts)
			default:
				ok = false
			}
		}
	}
	add(w.Parts)
	return b.String(), ok
}
