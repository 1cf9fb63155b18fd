// Package imports finds the files of a project that import other files of it: in Go, Python, TypeScript and JavaScript.
//
// [Scan] reads the tree once and makes a [Graph]. Imports are parsed, not matched by patterns: Go with go/parser, the
// others with a tokenizer that knows their strings, comments and templates. A file imports what it names itself; what
// that imports in turn does not count.
//
// Where a name may mean several files, all of them count: of Python a module in each folder above the file, of
// JavaScript all files of a package of the same tree. A file that cannot be read or parsed imports any file of its
// language. Not found are imports whose name is computed, and what build tools add.
package imports

import (
	"context"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"qq/internal/tools/tree"
)

// Limits of a scan. A file beyond them counts as one that cannot be parsed.
const (
	maxFile  = 1 << 20
	maxTotal = 256 << 20
)

// maxFiles is how many source files a tree may have. The files beyond them are not known: see [Graph.Left].
const maxFiles = 50_000

// language is one of those that are parsed.
type language uint8

const (
	none language = iota
	golang
	python
	script // TypeScript and JavaScript
)

// languageOf returns the language of a file, by its name.
func languageOf(file string) language {
	switch path.Ext(file) {
	case ".go":
		return golang
	case ".py", ".pyi":
		return python
	case ".ts", ".tsx", ".mts", ".cts", ".js", ".jsx", ".mjs", ".cjs":
		return script
	}
	return none
}

// Graph says which files of a tree import which. Paths are relative to the root of the tree and have slashes.
type Graph struct {
	// Left is how many source files there were too many.
	Left int

	files  []string
	by     map[string][]string   // the files that import a file or a package
	unsure map[language][]string // the files that may import any file
}

// Scan reads the tree below root, as far as its .gitignore files do not exclude it.
func Scan(ctx context.Context, root *os.Root) (*Graph, error) {
	g := &Graph{by: map[string][]string{}, unsure: map[language][]string{}}
	p := &project{root: root, has: map[string]bool{}}
	_, err := tree.Walk(ctx, root, ".", func(file string, e fs.DirEntry) {
		switch {
		case !e.Type().IsRegular():
		case isSetup(file):
			p.setups = append(p.setups, file)
		case languageOf(file) == none:
		case len(g.files) == maxFiles:
			g.Left++
		default:
			g.files = append(g.files, file)
			p.has[file] = true
		}
	})
	if err != nil {
		return nil, err
	}
	p.readSetups()
	total := 0
	for _, file := range g.files {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		l := languageOf(file)
		text, err := p.read(file)
		if total += len(text); err != nil || total > maxTotal {
			g.unsure[l] = append(g.unsure[l], file)
			continue
		}
		named, ok := p.importsOf(l, file, text)
		if !ok {
			g.unsure[l] = append(g.unsure[l], file)
		}
		for _, key := range named {
			g.by[key] = append(g.by[key], file)
		}
	}
	return g, nil
}

// Files returns the source files that were found.
func (g *Graph) Files() []string { return g.files }

// Unsure reports whether the file may import any file of its language, because it cannot be parsed or its imports are
// not known before it runs.
func (g *Graph) Unsure(file string) bool { return slices.Contains(g.unsure[languageOf(file)], file) }

// Importers returns the files that import one of the changed ones, sorted, without these themselves.
func (g *Graph) Importers(changed ...string) []string {
	var all []string
	for _, file := range changed {
		l := languageOf(file)
		if l == none {
			continue
		}
		all = append(append(all, g.by[file]...), g.unsure[l]...)
		switch dir := path.Dir(file); {
		case l == golang && !strings.HasSuffix(file, "_test.go"):
			all = append(all, g.by[goPackage(dir)]...)
		case l == script:
			for ; ; dir = path.Dir(dir) {
				all = append(all, g.by[npmPackage(dir)]...)
				if dir == "." {
					break
				}
			}
		}
	}
	slices.Sort(all)
	all = slices.Compact(all)
	return slices.DeleteFunc(all, func(file string) bool { return slices.Contains(changed, file) })
}

// goPackage and npmPackage are the keys of a package, which is a folder.
func goPackage(dir string) string  { return "go:" + dir }
func npmPackage(dir string) string { return "npm:" + dir }

// isSetup reports whether a file says how names are resolved.
func isSetup(file string) bool {
	name := path.Base(file)
	return name == "go.mod" || name == "package.json" || name == "jsconfig.json" ||
		strings.HasPrefix(name, "tsconfig") && strings.HasSuffix(name, ".json")
}

// project is what names are resolved with.
type project struct {
	root     *os.Root
	has      map[string]bool // source files
	setups   []string
	modules  []module           // of Go
	packages map[string]string  // folders of packages of JavaScript, by their names
	configs  map[string][]paths // of TypeScript, by the folder of their tsconfig.json
}

// read returns the text of a file of at most maxFile bytes.
func (p *project) read(file string) ([]byte, error) {
	info, err := p.root.Lstat(file)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() > maxFile {
		return nil, fs.ErrInvalid
	}
	return p.root.ReadFile(file)
}

// readSetups reads the files that say how names are resolved. One that is not valid says nothing.
func (p *project) readSetups() {
	p.packages, p.configs = map[string]string{}, map[string][]paths{}
	p.modules = above(p.root.Name())
	for _, file := range p.setups {
		text, err := p.read(file)
		if err != nil {
			continue
		}
		dir := path.Dir(file)
		switch path.Base(file) {
		case "go.mod":
			if name := modulePath(text); name != "" {
				p.modules = append(p.modules, module{name, dir})
			}
		case "package.json":
			if name := packageName(text); name != "" {
				p.packages[name] = dir
			}
		default:
			if c, ok := p.config(file, text, 0); ok {
				p.configs[dir] = append(p.configs[dir], c)
			}
		}
	}
}

// importsOf returns the keys of what a file imports. ok is false if there may be more.
func (p *project) importsOf(l language, file string, text []byte) (keys []string, ok bool) {
	switch l {
	case golang:
		var names []string
		if names, ok = goImports(text); ok {
			for _, name := range names {
				keys = append(keys, p.goKeys(name)...)
			}
		}
	case python:
		var all []pyImport
		all, ok = pyImports(text)
		for _, i := range all {
			keys = append(keys, p.pyKeys(file, i)...)
		}
	case script:
		var names []string
		names, ok = scriptImports(text)
		for _, name := range names {
			keys = append(keys, p.scriptKeys(file, name)...)
		}
	}
	slices.Sort(keys)
	return slices.Compact(keys), ok
}
