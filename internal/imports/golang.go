package imports

import (
	"go/parser"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
)

// module is a module of Go. The path of its folder is relative to the root of the tree.
type module struct{ name, dir string }

// goImports returns the import paths of a file; false if it cannot be parsed.
func goImports(text []byte) (names []string, ok bool) {
	f, err := parser.ParseFile(token.NewFileSet(), "", text, parser.ImportsOnly)
	if err != nil {
		return nil, false
	}
	for _, i := range f.Imports {
		name, err := strconv.Unquote(i.Path.Value)
		if err != nil {
			return nil, false
		}
		names = append(names, name)
	}
	return names, true
}

// goKeys returns the package of the tree with that import path. Of nested modules the innermost one has it.
func (p *project) goKeys(name string) []string {
	best := -1
	for i, m := range p.modules {
		if (name == m.name || strings.HasPrefix(name, m.name+"/")) &&
			(best < 0 || len(m.name) > len(p.modules[best].name)) {
			best = i
		}
	}
	if best < 0 {
		return nil
	}
	m := p.modules[best]
	return []string{goPackage(path.Join(m.dir, strings.TrimPrefix(name, m.name)))}
}

// modulePath returns the path of the module in a go.mod file, or "".
func modulePath(text []byte) string {
	block := false
	for line := range strings.Lines(string(text)) {
		line, _, _ = strings.Cut(line, "//")
		words := strings.Fields(line)
		switch {
		case len(words) == 2 && words[0] == "module" && words[1] == "(":
			block = true
			continue
		case len(words) == 2 && words[0] == "module":
			words = words[1:]
		case !block || len(words) != 1:
			continue
		}
		if name, err := strconv.Unquote(words[0]); err == nil {
			return name
		}
		return words[0]
	}
	return ""
}

// above returns the module that the folder root lies in, if its go.mod is in a folder above.
func above(root string) []module {
	root, err := filepath.Abs(root)
	if err != nil {
		return nil
	}
	for dir := filepath.Dir(root); ; dir = filepath.Dir(dir) {
		file := filepath.Join(dir, "go.mod")
		if info, err := os.Stat(file); err == nil && info.Mode().IsRegular() && info.Size() <= maxFile {
			text, err := os.ReadFile(file)
			rel, relErr := filepath.Rel(dir, root)
			name := modulePath(text)
			if err != nil || relErr != nil || name == "" {
				return nil
			}
			return []module{{path.Join(name, filepath.ToSlash(rel)), "."}}
		}
		if dir == filepath.Dir(dir) {
			return nil
		}
	}
}
