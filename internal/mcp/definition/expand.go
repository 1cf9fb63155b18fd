package definition

import (
	"maps"
	"slices"
	"strings"
)

// Environment finds the value of a variable.
type Environment interface {
	Lookup(name string) (value string, found bool)
}

// Expand returns s with its variables replaced: ${NAME}, and ${NAME:-DEFAULT} where NAME is missing or empty. A
// variable that is missing without a default is an error. A dollar sign that begins neither stays.
func (s Server) Expand(env Environment) (Server, error) {
	e := expander{env: env}
	s.Args, s.Env, s.Headers = slices.Clone(s.Args), maps.Clone(s.Env), maps.Clone(s.Headers)
	for _, text := range []*string{&s.Command, &s.Dir, &s.URL} {
		*text = e.expand(*text)
	}
	for i, a := range s.Args {
		s.Args[i] = e.expand(a)
	}
	for _, table := range []map[string]string{s.Env, s.Headers} {
		for _, name := range slices.Sorted(maps.Keys(table)) {
			table[name] = e.expand(table[name])
		}
	}
	switch {
	case e.missing != "":
		hint := "set it, or give it a default: ${" + e.missing + ":-TEXT}"
		return s, s.wrong(hint, "the variable %s is not set", e.missing)
	case s.Command == "" && s.URL == "":
		return s, s.wrong("set its variables", "its command or url is empty without them")
	case strings.Contains(s.URL, "${"):
		return s, s.wrong("close its braces", "its url has a variable that is none")
	}
	return s, s.check()
}

// expander replaces variables, and keeps the first that is missing.
type expander struct {
	env     Environment
	missing string
}

func (e *expander) expand(text string) string {
	var b strings.Builder
	for b.Len() <= maxText { // more is refused anyway
		before, rest, found := strings.Cut(text, "${")
		b.WriteString(before)
		if !found {
			break
		}
		body, after, closed := strings.Cut(rest, "}")
		name, fallback, has := strings.Cut(body, ":-")
		if !closed || !variable(name) {
			b.WriteString("${")
			text = rest
			continue
		}
		text = after
		value, set := e.env.Lookup(name)
		switch {
		case has && value == "":
			value = fallback
		case !set && e.missing == "":
			e.missing = name
		}
		b.WriteString(value)
	}
	return b.String()
}
