// Package arch tests the shape of the module: which package may import which, who owns a
// heavy import, how large and how wide the code is, and that each package has a name and
// a comment that say what it is for.
package arch

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

const module = "qq/"

// floors is a statement of policy, lowest floor first. A package may import
// packages on lower floors only, never a neighbour: with nine floors, no chain of
// imports is longer than nine. Change it in a commit of its own, with the reason.
var floors = [][]string{
	{"pkg/spelling", "pkg/money", "pkg/picture", "pkg/regular", "pkg/supervisor/targets", "internal/models/servers",
		"internal/models/listing", "internal/app/columns", "internal/models/tokens",
		"internal/app/serve/guard", "internal/app/serve/timeline", "internal/app/serve/graph",
		"pkg/agents/program"},
	{
		"pkg/task", "pkg/tool", "pkg/agents", "pkg/proc", "internal/config", "internal/sandbox",
		"internal/fifo", "pkg/supervisor/lease", "pkg/supervisor/plan/reference",
		"internal/config/trust", "internal/tools/tree", "internal/record/ledger/alive",
		"internal/record/ledger/appendfile", "internal/record/ledger/schema",
		"internal/record/ledger/selection", "internal/record/plans", "internal/record/ledger/cause",
		"internal/box/cgroup", "internal/box/placeholder",
		"internal/box/filestate",
		"internal/approval/rules/gitconfig", "internal/app/command/pipe", "internal/taskfile/prose",
		"internal/taskfile/locate", "internal/taskfile/until", "internal/taskfile/parts",
		"internal/app/command/vocabulary", "internal/app/command/block", "internal/terminal/keys",
		"internal/standin/form", "internal/models/dialect/think", "internal/models/dialect/schema",
		"internal/models/dialect/callid",
		"internal/isolate/merge", "internal/isolate/gitpatch", "internal/isolate/files",
	}, {
		"pkg/event", "pkg/llm", "pkg/supervisor/limits", "pkg/supervisor/ceiling", "pkg/supervisor/jobs",
		"pkg/supervisor/order", "pkg/supervisor/attempts", "pkg/supervisor/changes", "pkg/supervisor/tally",
		"pkg/supervisor/halt", "pkg/supervisor/pace", "pkg/supervisor/plan", "pkg/supervisor/targets/realpath",
		"pkg/supervisor/access", "pkg/supervisor/family", "pkg/supervisor/needs",
		"internal/terminal", "internal/terminal/editor", "internal/terminal/region",
		"internal/standin", "internal/tools/edit", "internal/approval/rules",
		"pkg/childproc/stdio", "pkg/childproc/room", "pkg/childproc/heartbeat",
		"internal/tools/store", "internal/taskfile", "internal/record/ledger",
		"internal/imports", "internal/mcp/definition",
		"internal/app/command", "internal/app/pane", "internal/app/lastword", "internal/app/manual",
		"internal/app/scratch",
		"internal/app/batch/naming", "internal/app/figures", "internal/app/serve/page",
		"internal/box", "internal/app/console/template",
		"internal/models/extract/markdown", "internal/isolate/worktree", "internal/isolate/overlayfs",
		"internal/terminal/markdown", "internal/agent/contents",
	}, {
		"pkg/session", "pkg/supervisor", "pkg/childproc/plausible", "internal/agent/loop", "internal/agent/longtext",
		"internal/approval", "internal/approval/rulefile",
		"internal/control/board", "internal/trace", "internal/record", "internal/app/output",
		"internal/app/output/transcript",
		"internal/app/folders", "internal/app/keyring", "internal/app/values", "internal/app/batch/foreign",
		"internal/app/prompt", "internal/app/batch/planned",
		"internal/app/checks", "internal/app/strict", "internal/app/batch/report",
		"internal/models/dialect", "internal/models/extract", "internal/models/gate", "internal/models/wire",
		"internal/tools/astgrep", "internal/tools/delegate", "internal/tools/files",
		"internal/tools/shell", "internal/tools/web", "internal/box/remote", "internal/isolate", "internal/undo",
		"internal/foreign/wire",
	},
	{"internal/app/batch/launcher", "internal/app/bounds", "pkg/childproc", "internal/agent", "internal/models",
		"internal/control", "internal/app/admin", "internal/app/batch", "internal/app/joblines",
		"internal/app/narrator", "internal/approval/dialog",
		"internal/app/serve/words", "internal/app/serve/talk",
		"internal/app/guides", "internal/app/planning", "internal/app/scope",
		"internal/app/definitions", "internal/app/permissions",
		"internal/app/signals", "internal/record/history", "internal/app/runs/filter",
		"internal/foreign/wire/wiretest", "internal/foreign/claude", "internal/foreign/acp"},
	{"internal/app/runs", "internal/app/replay", "internal/app/steering", "internal/app/serve/view",
		"internal/app/modelcmd", "internal/app/modelcmd/labtest", "internal/app/checkout", "internal/app/gates",
		"internal/app/staffing", "internal/app/reread", "internal/app/apart", "internal/app/options",
		"internal/app/console", "internal/foreign"},
	{"internal/app/lodging", "internal/app/top", "internal/app/serve", "internal/app/worker"},
	{"internal/app"},
	{"cmd/qq"},
}

// owners lists imports that only one place may make.
var owners = map[string][]string{
	"os/exec":                      {"pkg/proc"},
	"os/signal":                    {"internal/app/signals", "internal/terminal"}, // terminal: those of job control
	"github.com/ollama/ollama/api": {"internal/models"},
	"github.com/urfave/cli/v2": {
		"internal/app",
		"internal/app/admin",
		"internal/app/batch",
		"internal/app/checkout",
		"internal/app/command",
		"internal/app/definitions",
		"internal/app/manual",
		"internal/app/modelcmd",
		"internal/app/permissions",
		"internal/app/planning",
		"internal/app/prompt", "internal/app/checks", "internal/app/batch/report",
		"internal/app/runs", "internal/app/options", "internal/app/replay", "internal/app/top",
		"internal/app/serve", "internal/app/console",
	},
	"github.com/joho/godotenv":                             {"internal/config"},
	"go.yaml.in/yaml/v3":                                   {"pkg/agents"},
	"go.uber.org/zap":                                      {"internal/record"},
	"modernc.org/sqlite":                                   {"internal/record/ledger", "internal/record/ledger/cause"},
	"github.com/failsafe-go/failsafe-go":                   {"internal/models/gate"},
	"github.com/landlock-lsm/go-landlock/landlock/syscall": {"internal/sandbox"},
	"github.com/bmatcuk/doublestar/v4": {
		"internal/approval/rules", "internal/tools/astgrep", "internal/tools/files", "internal/tools/tree",
		"pkg/supervisor/ceiling", "pkg/supervisor/changes",
	},
	"github.com/JohannesKaufmann/html-to-markdown/v2": {"internal/tools/web"},
	"mvdan.cc/sh/v3/syntax":                           {"internal/approval/rules"},
}

// forbidden modules cost too much at each start, or do harm.
var forbidden = []string{
	"github.com/charmbracelet/glamour", "github.com/mattn/go-runewidth", "github.com/santhosh-tekuri/jsonschema",
	"github.com/openai/openai-go", "github.com/tiktoken-go/tokenizer",
}

var vague = []string{"util", "utils", "common", "helper", "helpers", "misc", "base", "shared", "lib", "core", "manager",
	"engine"}

// maxColumns is how long a line of code or of a comment may be, with a tab as four
// columns. Lines of raw strings and lines with a URL are excepted: they cannot be broken.
const maxColumns = 120

// pkg is one package directory: the imports of its files that are no tests, and
// whether one of them has a package comment.
type pkg struct {
	imports    []string
	documented bool
	silent     []string // exported names without a comment
	lines      int      // of code: no comments, no blank ones
}

// maxLines is how many lines of code a package may have. Packages below it count by
// themselves.
const maxLines = 1500

func TestSize(t *testing.T) {
	for dir, p := range tree(t) {
		if p.lines > maxLines {
			t.Errorf("%s has %d lines of code; at most %d", dir, p.lines, maxLines)
		}
	}
}

func TestFloors(t *testing.T) {
	floor := map[string]int{}
	for i, names := range floors {
		for _, n := range names {
			floor[n] = i
		}
	}
	seen := map[string]bool{}
	for dir, p := range tree(t) {
		here, ok := floor[dir]
		if !ok {
			t.Errorf("%s is on no floor: add it to floors", dir)
			continue
		}
		seen[dir] = true
		for _, imp := range p.imports {
			if who, ok := owners[imp]; ok && !slices.Contains(who, dir) {
				t.Errorf("%s imports %s; only %v may", dir, imp, who)
			}
			sib, ok := strings.CutPrefix(imp, module)
			if !ok {
				continue
			}
			if strings.HasSuffix(sib, "test") || sib == "internal/standin" {
				t.Errorf("%s imports %s outside a test", dir, sib)
			}
			if strings.HasPrefix(dir, "pkg/") && !strings.HasPrefix(sib, "pkg/") {
				t.Errorf("%s imports %s: other modules import pkg, and must get all of it", dir, sib)
			}
			if floor[sib] >= here {
				t.Errorf("%s (floor %d) imports %s (floor %d)", dir, here, sib, floor[sib])
			}
		}
	}
	for n := range floor {
		if !seen[n] {
			t.Errorf("floors names %s, which does not exist", n)
		}
	}
}

func TestNamesAndComments(t *testing.T) {
	for dir, p := range tree(t) {
		if slices.Contains(vague, path.Base(dir)) {
			t.Errorf("%s says nothing about what it does", dir)
		}
		if !p.documented {
			t.Errorf("%s has no package comment", dir)
		}
		for _, name := range p.silent {
			t.Errorf("%s: %s has no doc comment", dir, name)
		}
	}
}

func TestColumns(t *testing.T) {
	sources(t, func(_, file string, text []byte) error {
		long, err := longLines(file, text)
		if len(long) > 0 {
			t.Errorf("%s: lines %v have more than %d columns", file, long, maxColumns)
		}
		return err
	})
}

// longLines are the numbers of the lines of a file that have too many columns.
func longLines(name string, text []byte) (long []int, err error) {
	set := token.NewFileSet()
	f, err := parser.ParseFile(set, name, text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	raw := map[int]bool{}
	ast.Inspect(f, func(n ast.Node) bool {
		if lit, ok := n.(*ast.BasicLit); ok && strings.HasPrefix(lit.Value, "`") {
			first, last := set.Position(lit.Pos()).Line, set.Position(lit.End()).Line
			exempt := first < last || strings.HasSuffix(name, "_test.go") // one line of code can be broken
			for line := first; line <= last && exempt; line++ {
				raw[line] = true
			}
		}
		return true
	})
	number := 0
	for line := range strings.Lines(string(text)) {
		number++
		columns := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")) + 3*strings.Count(line, "\t")
		if columns > maxColumns && !raw[number] && !strings.Contains(line, "://") {
			long = append(long, number)
		}
	}
	return long, nil
}

func TestForbiddenModules(t *testing.T) {
	list, err := exec.Command("go", "list", "-deps", "-tags", "urfave_cli_no_docs,nethttpomithttp2",
		"-f", "{{with .Module}}{{.Path}}{{end}}", "../../cmd/qq").Output()
	require.NoError(t, err)
	for m := range strings.FieldsSeq(string(list)) {
		if slices.ContainsFunc(forbidden, func(f string) bool { return strings.HasPrefix(m, f) }) {
			t.Errorf("%s is linked into qq", m)
		}
	}
}

// tree reads the packages of this module, without their tests.
func tree(t *testing.T) map[string]*pkg {
	t.Helper()
	pkgs := map[string]*pkg{}
	sources(t, func(dir, file string, text []byte) error {
		if strings.HasSuffix(file, "_test.go") {
			return nil
		}
		f, err := parser.ParseFile(token.NewFileSet(), file, text, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		if pkgs[dir] == nil {
			pkgs[dir] = &pkg{}
		}
		pkgs[dir].add(f)
		for line := range strings.Lines(string(text)) {
			if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "//") {
				pkgs[dir].lines++
			}
		}
		return nil
	})
	return pkgs
}

// sources calls visit with each Go file of this module and its folder. Folders with a
// go.mod of their own belong to another module.
func sources(t *testing.T, visit func(dir, file string, text []byte) error) {
	t.Helper()
	root := filepath.Join("..", "..")
	require.NoError(t, filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			_, err := os.Stat(filepath.Join(p, "go.mod"))
			if p != root && (err == nil || d.Name() == "testdata" || strings.HasPrefix(d.Name(), ".")) {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(p, ".go") {
			return nil
		}
		text, err := os.ReadFile(p)
		if err != nil {
			return err
		}
		file, err := filepath.Rel(root, p)
		if err != nil {
			return err
		}
		file = filepath.ToSlash(file)
		return visit(path.Dir(file), file, text)
	}))
}

func (p *pkg) add(f *ast.File) {
	p.documented = p.documented || f.Doc != nil
	for _, im := range f.Imports {
		p.imports = append(p.imports, strings.Trim(im.Path.Value, `"`))
	}
	for _, d := range f.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			public := d.Name.IsExported() && (d.Recv == nil || exportedReceiver(d.Recv))
			if public && d.Doc == nil && !implements(d.Name.Name) {
				p.silent = append(p.silent, d.Name.Name)
			}
		case *ast.GenDecl:
			for _, s := range d.Specs {
				if ts, ok := s.(*ast.TypeSpec); ok && ts.Name.IsExported() && d.Doc == nil && ts.Doc == nil {
					p.silent = append(p.silent, ts.Name.Name)
				}
			}
		}
	}
}

func exportedReceiver(r *ast.FieldList) bool {
	typ := r.List[0].Type
	if star, ok := typ.(*ast.StarExpr); ok {
		typ = star.X
	}
	id, ok := typ.(*ast.Ident)
	return ok && id.IsExported()
}

// implements reports whether a method is of an interface that everybody knows.
func implements(name string) bool {
	return slices.Contains([]string{"Error", "Unwrap", "String", "Len", "Less", "Swap", "Push", "Pop"}, name)
}
