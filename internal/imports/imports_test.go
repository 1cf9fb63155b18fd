package imports

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// scan makes a tree of files, given as name and text in turn, and scans it.
func scan(t testing.TB, files ...string) *Graph {
	t.Helper()
	dir := t.TempDir()
	for i := 0; i < len(files); i += 2 {
		name := filepath.Join(dir, filepath.FromSlash(files[i]))
		require.NoError(t, os.MkdirAll(filepath.Dir(name), 0o700))
		require.NoError(t, os.WriteFile(name, []byte(files[i+1]), 0o600))
	}
	root, err := os.OpenRoot(dir)
	require.NoError(t, err)
	defer root.Close()
	g, err := Scan(t.Context(), root)
	require.NoError(t, err)
	return g
}

func TestGo(t *testing.T) {
	g := scan(t, "go.mod", "// about\nmodule example.org/m // here\n\ngo 1.26\n", "a/a.go", "package a\n",
		"a/a_test.go", "package a_test\n\nimport \"example.org/m/a\"\n",
		"b/b.go", "package b\n\nimport (\n\t\"fmt\"\n\tx \"example.org/m/a\"\n)\n\n"+
			"var _ = `import \"example.org/m/c\"`\n",
		"c/c.go", "// import \"example.org/m/a\"\npackage c\n\nimport _ \"example.org/m/b\"\n",
		"root.go", "package m\n\nimport . \"example.org/m/nested/deep\"\n",
		"other/other.go", "package other\n\nimport \"example.org/m2/a\"\nimport \"example.org/m\"\n",
		"nested/go.mod", "module (\n\t\"example.org/m/nested\"\n)\n", "nested/deep/d.go", "package deep\n",
		"nested/a/a.go", "package a\n\nimport \"example.org/m/nested/deep\"\n",
		"broken/x.go", "package x\n\nimport \"example", "notes.txt", "a")
	assert.Equal(t, []string{"a/a_test.go", "b/b.go", "broken/x.go"}, g.Importers("a/a.go"))
	assert.Equal(t, []string{"broken/x.go", "c/c.go"}, g.Importers("b/b.go"))
	assert.Equal(t, []string{"broken/x.go", "nested/a/a.go", "root.go"}, g.Importers("nested/deep/new.go"))
	assert.Equal(t, []string{"broken/x.go", "other/other.go"}, g.Importers("root.go"))
	assert.Equal(t, []string{"broken/x.go"}, g.Importers("a/a_test.go"), "nobody imports a test")
	assert.Equal(t, []string{"broken/x.go", "c/c.go"}, g.Importers("a/a.go", "b/b.go", "a/a_test.go"))
	assert.Empty(t, g.Importers("notes.txt"))
}

func TestGoModuleAbove(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "sub/a"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "go.mod"), []byte("module m\n"), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "sub/x.go"), []byte("package x\nimport \"m/sub/a\"\n"), 0o600))
	root, err := os.OpenRoot(filepath.Join(dir, "sub"))
	require.NoError(t, err)
	defer root.Close()
	g, err := Scan(t.Context(), root)
	require.NoError(t, err)
	assert.Equal(t, []string{"x.go"}, g.Importers("a/a.go"))
}

func TestPythonImports(t *testing.T) {
	for source, want := range map[string]string{
		"import a":                                          "a",
		"import a.b as c, d ; import e":                     "a.b d e",
		"from a.b import c as d, e":                         "a.b:c,e",
		"from . import x\nfrom .. import y":                 ".:x ..:y",
		"from ...a.b import *":                              "...a.b",
		"from a import (\n b, # import z\n c,\n)\nimport d": "a:b,c d",
		"from a \\\n  import b":                             "a:b",
		"from a \\\r\n  import b":                           "a:b",
		"if x: import a\nelse: from b import c":             "a b:c",
		"try:\n\timport a\nexcept E: pass":                  "a",
		"x = {1: 2, 'from': 3}[1:2]":                        "",
		"# import a\n'import b'\n\"\"\"\nimport c\n\"\"\"\nx = 'a' \\\n 'import d'\nimport e": "e",
		"def f():\n    yield from a\n    raise B from c\nimport d":                            "d",
		"rb'''\\'''import a'''\nimport b":                                                     "b",
		`f"{x["import a"]}"` + "\nimport b":                                                   "b",
		`f"{x!r:{y}'} {{" 'z'` + "\nimport b":                                                 "b",
		`F'{f"{1}"}'; import b`:                                                               "b",
		`f"{x:%H'%M}"` + "\nimport b":                                                         "b",
		"f'''{\nx\n}'''\nimport b":                                                            "b",
		"importance = 1\nfrom_ = 2\nx.import_(1)":                                             "",
		"import ünï.código":                                                                   "ünï.código",
		"from a import":                                                                       "a",
		"import":                                                                              "",
		"import 1":                                                                            "",
		"x = (\nimport a\n)":                                                                  "",
		"print 'python 2'\nimport a":                                                          "a",
		"match x:\n  case 1: import a":                                                        "a",
		"\ufeffimport a":                                                                      "a",
	} {
		all, ok := pyImports([]byte(source))
		var got []string
		for _, i := range all {
			text := strings.Repeat(".", i.level) + strings.Join(i.parts, ".")
			if len(i.names) > 0 {
				text += ":" + strings.Join(i.names, ",")
			}
			got = append(got, text)
		}
		assert.Equal(t, want, strings.Join(got, " "), "%q", source)
		assert.True(t, ok, "%q", source)
	}
	for _, source := range []string{"x = '''a", "x = 'a\nimport b", "x = (1,\n", "f\"{x\nimport a"} {
		_, ok := pyImports([]byte(source))
		assert.False(t, ok, "%q", source)
	}
}

func TestPython(t *testing.T) {
	g := scan(t, "app/__init__.py", "", "app/models.py", "", "app/views.py", "from .models import User\n",
		"app/sub/__init__.py", "from ..models import X",
		"app/sub/deep.py", "from ... import y\nfrom .. import models\n",
		"main.py", "import app.models", "run.py", "import app", "src/lib/core.py", "", "tests/test_core.py",
		"from lib import core\n", "services/api/app.py", "", "services/api/tests/test_app.py", "import app\n",
		"broken.py", "'''", "stubs.pyi", "from app import models", "self.py", "import self")
	assert.Equal(t, []string{"app/sub/__init__.py", "app/sub/deep.py", "app/views.py", "broken.py", "main.py",
		"stubs.pyi"}, g.Importers("app/models.py"))
	assert.Equal(t, []string{"broken.py", "tests/test_core.py"}, g.Importers("src/lib/core.py"))
	assert.Equal(t, []string{"broken.py", "services/api/tests/test_app.py"}, g.Importers("services/api/app.py"))
	assert.Contains(t, g.Importers("app/__init__.py"), "run.py")
	assert.Contains(t, g.Importers("app/__init__.py"), "main.py", "the package runs too")
	assert.Equal(t, []string{"broken.py"}, g.Importers("self.py"))
}

func TestScriptImports(t *testing.T) {
	for source, want := range map[string]string{
		`import a, {b as c, type D} from "./x"`:                              "./x",
		`import * as a from './x'`:                                           "./x",
		`import "./side"`:                                                    "./side",
		`import type {A} from "./t"; import B from './u';`:                   "./t ./u",
		`import {"a b" as c} from "./x"`:                                     "./x",
		"import x from `./x`":                                                "./x",
		`export * from "./x"; export * as n from "./y"`:                      "./x ./y",
		`export {a, b as default} from "./x"`:                                "./x",
		`export type {A} from "./x"; export type * from "./y"`:               "./x ./y",
		"export {a}\nconst from = \"./x\"":                                   "",
		"export {a}\nimport b from './x'":                                    "./x",
		`export const from = "./x"`:                                          "",
		`export default "./x"`:                                               "",
		`const a = require("./x"), b = require('./y').z`:                     "./x ./y",
		`import fs = require("./x")`:                                         "./x",
		`require.resolve("./x"); module.require("./y")`:                      "./x",
		`await import("./x"); import(/* why */ './y', {with: {}})`:           "./x ./y",
		"import(`./x`); import(`./${y}`); import('./' + z); require(w)":      "./x",
		`import.meta.url + "./x"`:                                            "",
		`x.import("./x"); ({import: "./x"})`:                                 "",
		`let a: typeof import("./x")`:                                        "./x",
		"// import './a'\n/* import './b' */ import './c'":                   "./c",
		"`import './a' ${ `${require('./b')}` } import './c'`; import './d'": "./b ./d",
		`x = /import ".\/[/"']a/; import "./b"`:                              "./b",
		`x = a / b; y = c / "import './d'"`:                                  "",
		`if (a) b = (c) / 2; import "./x"; d = e / 2`:                        "./x",
		`const s = 'it\'s'; import "./x"`:                                    "./x",
		"const s = 'a\\\n import \"./n\"'; import './x'":                     "./x",
		"<p>don't</p>\nimport('./x')":                                        "./x",
		"#!/usr/bin/env node 'x\nimport './x'":                               "./x",
		`import x from "./\x61\u0062\u{63}.js" with {type: "json"}`:          "./abc.js",
		`$import "./x"; importer("./y"); const required = ("./z")`:           "",
		"\ufeffimport './x'":                                                 "./x",
		`import`:                                                             "", `import {`: "", `import * from`: "", `export`: "", `require(`: "", `}}}} import "./x"`: "./x",
	} {
		got, ok := scriptImports([]byte(source))
		assert.Equal(t, want, strings.Join(got, " "), "%q", source)
		assert.True(t, ok, "%q", source)
	}
	for _, source := range []string{"import './a' /* ", "x = `a", "x = `${", "x = `${a"} {
		_, ok := scriptImports([]byte(source))
		assert.False(t, ok, "%q", source)
	}
}

func TestScript(t *testing.T) {
	g := scan(t, "src/util.ts", "", "src/a.ts", `import {x} from "./util"`, "src/b.tsx", `import x from "./util.js"`,
		"src/c.js", `require("../src/util")`, "src/lib/index.ts", `export * from ".."`, "src/index.ts", `import "@/lib"`,
		"src/d.ts", `import {y} from "~lib/thing"; import "./lib?raw"`, "src/lib/thing.ts", "",
		"src/e.ts", `import "lib/thing"`,
		"tsconfig.json", "{ // names\n  \"extends\": [\"./tsconfig.base\"],\n  \"compilerOptions\": {\"paths\": "+
			"{\"@/*\": [\"./src/*\",], \"~lib/thing\": [\"src/lib/thing.ts\"]}, /* end */},\n}\n",
		"tsconfig.base.json", `{"compilerOptions": {"baseUrl": "src"}}`,
		"packages/ui/package.json", `{"name": "@org/ui"}`, "packages/ui/src/button.tsx", "",
		"packages/web/package.json", `{"name": "web"}`, "packages/web/app.jsx", `import {B} from "@org/ui/button"`,
		"packages/web/bare.mjs", `import "@org/ui"; import "react"`, "broken.js", "/*", "data.json", "{}",
		"node_modules/x/x.js", `import "../../src/util"`, ".gitignore", "node_modules\n")
	// paths of the file that extends are relative to the folder of names, if there is one
	assert.Equal(t, []string{"broken.js", "src/a.ts", "src/b.tsx", "src/c.js"}, g.Importers("src/util.ts"))
	assert.Equal(t, []string{"broken.js", "src/d.ts"}, g.Importers("src/lib/index.ts"))
	assert.Equal(t, []string{"broken.js", "src/e.ts"}, g.Importers("src/lib/thing.ts"))
	assert.Equal(t, []string{"broken.js", "packages/web/app.jsx", "packages/web/bare.mjs"},
		g.Importers("packages/ui/src/button.tsx"))
	assert.Equal(t, []string{"broken.js", "src/lib/index.ts"}, g.Importers("src/index.ts"))

	g = scan(t, "web/tsconfig.app.json", `{"compilerOptions": {"paths": {"@/*": ["./src/*"]}}}`, "web/src/x.ts", "",
		"web/src/deep/y.ts", `import x from "@/x"`)
	assert.Equal(t, []string{"web/src/deep/y.ts"}, g.Importers("web/src/x.ts"))
}

// TestBounds: what cannot be read counts as importing anything, and links are not followed.
func TestBounds(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	write("a.py", "")
	write("large.py", strings.Repeat("#\n", maxFile/2+1))
	write("b.js", "")
	require.NoError(t, os.Symlink("/etc/passwd", filepath.Join(dir, "link.py")))
	root, err := os.OpenRoot(dir)
	require.NoError(t, err)
	defer root.Close()
	g, err := Scan(t.Context(), root)
	require.NoError(t, err)
	assert.Equal(t, []string{"large.py"}, g.Importers("a.py"))
	assert.Empty(t, g.Importers("b.js"), "it is of another language")
	assert.Equal(t, []string{"a.py", "b.js", "large.py"}, g.Files())
}

// TestLinear: no text takes more time than its length.
func TestLinear(t *testing.T) {
	for _, part := range []string{"import ", "import (", "/[", `'\'`, `"\"`, "`${", "{", "export {", "export type ", "/*",
		"import{a,", "f\"{", "f'{x:{", "f'''{", "from a import (", "from .", "\\\n", "x = /", "<a>'", "'''", "a.b."} {
		source := []byte(strings.Repeat(part, maxFile/4/len(part)))
		start := time.Now()
		pyImports(source)
		scriptImports(source)
		goImports(source)
		plain(source)
		modulePath(source)
		assert.Less(t, time.Since(start), 10*time.Second, "%q", part)
	}
}

func FuzzPython(f *testing.F) {
	for _, s := range []string{"import a", "from . import b", "f'{x!r:{y}}'", "'''\n'''", "x = [\n1]\n",
		"\\", "f\"{", "rb'"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, source string) {
		all, ok := pyImports([]byte("import known\n" + source))
		if len(all) == 0 || strings.Join(all[0].parts, ".") != "known" {
			t.Fatal("the first import is lost")
		}
		if before, fine := pyImports([]byte(source)); fine && ok {
			after, _ := pyImports([]byte(source + "\n;import known"))
			if len(after) < len(before) || !strings.HasSuffix(fmt.Sprint(after), "[known] []}]") &&
				!strings.HasSuffix(strings.TrimRight(source, " \t\f\r"), "\\") {
				t.Errorf("%q: the last import is lost: %v", source, after)
			}
		}
	})
}

func FuzzScript(f *testing.F) {
	for _, s := range []string{`import "a"`, "`${`${1}`}`", "/* */", "a = /b[/]/", "'\\'", "export {a} from 'b'", "//x", "<p>'</p>"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, source string) {
		names, _ := scriptImports([]byte("import 'known';\n" + source))
		if len(names) == 0 || names[0] != "known" {
			t.Fatal("the first import is lost")
		}
		if _, ok := scriptImports([]byte(source)); ok {
			names, _ = scriptImports([]byte(source + "\n\n;import 'known'"))
			if len(names) == 0 || names[len(names)-1] != "known" {
				t.Errorf("%q: the last import is lost: %q", source, names)
			}
		}
	})
}

func FuzzSetups(f *testing.F) {
	f.Add("{\"compilerOptions\":{\"paths\":{\"a\":[\"b\",],},},} // x")
	f.Add("module (\n\"a\"\n)")
	f.Fuzz(func(t *testing.T, source string) {
		plain([]byte(source))
		modulePath([]byte(source))
		packageName([]byte(source))
		unescape(source)
	})
}
