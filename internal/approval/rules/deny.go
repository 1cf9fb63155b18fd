package rules

import (
	"path"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// anything is the token of a word whose text is not known before the command runs.
const anything = "\x00"

// mayRun reports whether a command might run a call of the pattern, anywhere in it. nested bounds
// how many scripts within scripts it reads. What it cannot read might.
func (c calls) mayRun(command string, nested int) bool {
	file, err := parse(command, "\n\t")
	if err != nil || nested == 0 {
		return true
	}
	found := false
	syntax.Walk(file, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.CallExpr:
			found = found || len(n.Args) > 0 && c.inCall(n.Args, nested)
		case *syntax.Redirect: // a shell may read it
			for _, w := range []*syntax.Word{n.Word, n.Hdoc} {
				if w != nil {
					given, _ := text(w)
					found = found || c.among(split(given), false)
				}
			}
		}
		return !found
	})
	return found
}

// inCall reports whether one call might be a call of the pattern, or start one.
func (c calls) inCall(args []*syntax.Word, nested int) bool {
	var tokens []string
	words := make([]string, len(args))
	for i, arg := range args {
		var known bool
		if words[i], known = text(arg); !known {
			words[i] = anything
		}
		tokens = append(tokens, split(words[i])...)
	}
	name := program(words)
	return name == anything || interprets(name) && c.inScript(name, words[1:], nested) ||
		c.among(tokens, launches(name))
}

// inScript reports whether a shell with these arguments might run a call of the pattern: its script
// is in its input, is not known, or might. What a file does is not known to qq.
func (c calls) inScript(shell string, args []string, nested int) bool {
	option := func(a string) bool { return strings.HasPrefix(a, "-") }
	scripts := slices.DeleteFunc(slices.Clone(args), option)
	inline := shell == "eval" || slices.ContainsFunc(args, func(a string) bool {
		return option(a) && !strings.HasPrefix(a, "--") && strings.HasSuffix(a, "c")
	})
	switch {
	case len(scripts) == 0, slices.Contains(args, anything), slices.Contains(args, "-s"):
		return true
	case !inline:
		return false
	}
	return slices.ContainsFunc(scripts, func(s string) bool { return c.mayRun(s, nested-1) })
}

// among reports whether the words of the pattern are among tokens, in their order. Of a launcher
// any program is started by a word that is not known.
func (c calls) among(tokens []string, launcher bool) bool {
	for i, t := range tokens {
		switch {
		case t == anything && !launcher, !same(strings.ToLower(t), strings.ToLower(program(c.words))):
		case slices.Contains(tokens, "xargs"), follow(tokens[i+1:], c.words[1:]):
			return true
		}
	}
	return false
}

// follow reports whether words are among tokens, in their order.
func follow(tokens, words []string) bool {
	for _, word := range split(strings.Join(words, " ")) {
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
	ok, err := path.Match(token, word)
	return token == anything || token == word || ok || err != nil
}

// split returns the tokens of a text: what might be words of a command in it.
func split(text string) []string {
	return strings.FieldsFunc(text, func(r rune) bool { return strings.ContainsRune(" \t\n/'\"`;&|()<>$=,\\", r) })
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
