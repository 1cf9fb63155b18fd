package imports

import (
	"encoding/json"
	"path"
	"slices"
	"strings"
)

// endings are what is appended to the name of a module of JavaScript.
func endings() []string {
	return []string{"", ".ts", ".tsx", ".d.ts", ".js", ".jsx", ".mts", ".cts", ".mjs", ".cjs", "/index.ts",
		"/index.tsx", "/index.d.ts", "/index.js", "/index.jsx", "/index.mts", "/index.cts", "/index.mjs", "/index.cjs"}
}

// scriptKeys returns what the name of a module means in file: a file, or a package of the tree.
func (p *project) scriptKeys(file, name string) []string {
	name, _, _ = strings.Cut(name, "?") // of build tools
	dir := path.Dir(file)
	if name == "." || name == ".." || strings.HasPrefix(name, "./") || strings.HasPrefix(name, "../") {
		target := path.Join(dir, name)
		if strings.HasPrefix(target, "../") {
			return nil
		}
		return p.scriptFiles(nil, target)
	}
	keys := p.mapped(dir, name)
	parts := strings.SplitN(name, "/", 3)
	for n := 1; n <= min(len(parts), 2); n++ {
		if folder, ok := p.packages[strings.Join(parts[:n], "/")]; ok && name != "" {
			keys = append(keys, npmPackage(folder))
		}
	}
	return keys
}

// scriptFiles appends the file that the module at a path without its ending means. TypeScript is imported with the
// ending of the JavaScript that becomes of it.
func (p *project) scriptFiles(keys []string, target string) []string {
	for _, ending := range endings() {
		if f := path.Join(target, ending); strings.HasPrefix(ending, "/") && p.has[f] {
			keys = append(keys, f)
		} else if f := target + ending; p.has[f] {
			keys = append(keys, f)
		}
	}
	for _, pair := range [][]string{
		{".js", ".ts", ".tsx", ".d.ts"}, {".jsx", ".tsx"}, {".mjs", ".mts"}, {".cjs", ".cts"},
	} {
		if stem, ok := strings.CutSuffix(target, pair[0]); ok {
			for _, ending := range pair[1:] {
				if p.has[stem+ending] {
					keys = append(keys, stem+ending)
				}
			}
		}
	}
	return keys
}

// packageName returns the name in a package.json file, or "".
func packageName(text []byte) string {
	var of struct{ Name string }
	_ = json.Unmarshal(text, &of)
	return of.Name
}

// paths are what a tsconfig.json file says about names.
type paths struct {
	base   string // folder of names; "" if there is none
	maps   map[string][]string
	mapped string // folder that maps are relative to
}

// maxExtends is how many files one tsconfig.json file may extend, each the one before it.
const maxExtends = 8

// config reads a tsconfig.json file. ok is false if it says nothing about names.
func (p *project) config(file string, text []byte, depth int) (c paths, ok bool) {
	var of struct {
		Extends         json.RawMessage
		CompilerOptions struct {
			BaseURL *string
			Paths   map[string][]string
		}
	}
	if json.Unmarshal(plain(text), &of) != nil {
		return c, false
	}
	dir := path.Dir(file)
	for _, name := range extended(of.Extends) {
		if depth == maxExtends || !strings.HasPrefix(name, ".") {
			continue // of a package that is not part of the tree
		}
		name = path.Join(dir, name)
		if !strings.HasSuffix(name, ".json") {
			name += ".json"
		}
		if text, err := p.read(name); err == nil {
			if below, found := p.config(name, text, depth+1); found {
				c, ok = below, true
			}
		}
	}
	if of.CompilerOptions.BaseURL != nil {
		c.base, ok = path.Join(dir, *of.CompilerOptions.BaseURL), true
		c.mapped = c.base
	}
	if of.CompilerOptions.Paths != nil {
		c.maps, ok = of.CompilerOptions.Paths, true
		if c.mapped = c.base; c.base == "" {
			c.mapped = dir
		}
	}
	return c, ok
}

// extended returns the names of the files that another one extends: one, or a list.
func extended(value json.RawMessage) (names []string) {
	var one string
	if json.Unmarshal(value, &one) == nil && one != "" {
		return []string{one}
	}
	_ = json.Unmarshal(value, &names)
	return names
}

// mapped returns the files that a name means by the tsconfig.json files in the nearest folder that has some.
func (p *project) mapped(dir, name string) (keys []string) {
	for len(p.configs[dir]) == 0 {
		if dir == "." {
			return nil
		}
		dir = path.Dir(dir)
	}
	for _, c := range p.configs[dir] {
		for pattern, targets := range c.maps {
			before, after, star := strings.Cut(pattern, "*")
			if pattern != name && (!star || len(name) < len(before)+len(after) || !strings.HasPrefix(name, before) ||
				!strings.HasSuffix(name, after)) {
				continue
			}
			part := ""
			if star {
				part = name[len(before) : len(name)-len(after)]
			}
			for _, target := range targets {
				keys = p.scriptFiles(keys, path.Join(c.mapped, strings.Replace(target, "*", part, 1)))
			}
		}
		if c.base != "" {
			keys = p.scriptFiles(keys, path.Join(c.base, name))
		}
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}

// plain returns JSON without comments, and without commas before a bracket that closes.
func plain(source []byte) []byte {
	text := string(source)
	out := make([]byte, 0, len(text))
	comma := -1 // where the last comma is in out, if only white space followed
	for i := 0; i < len(text); i++ {
		rest := text[i:min(i+2, len(text))]
		switch c := text[i]; {
		case rest == "//":
			i += lineEnd(text[i:]) - 1
			continue
		case rest == "/*":
			end := strings.Index(text[i+2:], "*/")
			if end < 0 {
				return out
			}
			i += end + 3
			continue
		case c == '"':
			begin := i
			for i++; i < len(text) && text[i] != '"'; i++ {
				if text[i] == '\\' {
					i++
				}
			}
			out = append(out, text[begin:min(i+1, len(text))]...)
			comma = -1
			continue
		case c == ',':
			comma = len(out)
		case (c == '}' || c == ']') && comma >= 0:
			out[comma] = ' '
			comma = -1
		case c != ' ' && c != '\t' && c != '\r' && c != '\n':
			comma = -1
		}
		out = append(out, text[i])
	}
	return out
}
