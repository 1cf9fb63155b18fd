package astgrep

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"qq/internal/standin"
	"qq/pkg/proc"
	"qq/pkg/tool"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// astGrep is the program that the tests use: that of QQ_AST_GREP, of the cache
// that test/astgrep/tools.sh fills, or of PATH.
func astGrep(t testing.TB) string {
	t.Helper()
	if path := os.Getenv("QQ_AST_GREP"); path != "" {
		return path
	}
	if cache, err := os.UserCacheDir(); err == nil {
		found, err := filepath.Glob(filepath.Join(cache, "qq-test", "ast-grep-*", "node_modules", "@ast-grep", "cli-*",
			"ast-grep"))
		if err == nil && len(found) > 0 {
			return found[len(found)-1]
		}
	}
	path, err := Find(os.Getenv)
	if err != nil && os.Getenv("QQ_AST_GREP_REQUIRED") == "1" {
		t.Fatalf("%v, or run test/astgrep/tools.sh", err)
	}
	if err != nil {
		t.Skipf("%v, or run test/astgrep/tools.sh", err)
	}
	return path
}

// host is a Host of the test's own.
func host(t testing.TB) *proc.Host {
	h := proc.NewHost()
	t.Cleanup(h.Close)
	return h
}

// folder is a working directory with files, given by names and contents in turn.
func folder(t testing.TB, program string, files ...string) Config {
	t.Helper()
	dir := t.TempDir()
	for i := 0; i < len(files); i += 2 {
		path := filepath.Join(dir, files[i])
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		require.NoError(t, os.WriteFile(path, []byte(files[i+1]), 0o600))
	}
	root, err := os.OpenRoot(dir)
	require.NoError(t, err)
	t.Cleanup(func() { root.Close() })
	return Config{Host: host(t), Program: program, Root: root, Dir: dir}
}

func (c Config) set() tool.Set {
	reading, writing := Tools(c)
	return append(reading, writing...)
}

func (c Config) content(t testing.TB, file string) string {
	t.Helper()
	data, err := c.Root.ReadFile(file)
	require.NoError(t, err)
	return string(data)
}

// grep is an answer of ast_grep, line by line.
func (c Config) grep(t testing.TB, pairs ...any) []string {
	t.Helper()
	r := standin.CallTool(t, c.set(), "ast_grep", standin.Args(pairs...))
	require.False(t, r.Failed, r.Content)
	return strings.Split(r.Content, "\n")
}

const source = `package a

import "fmt"

var top = errors.New("top")

func f(err error) error {
	if err != nil {
		return fmt.Errorf("x: %w", err)
	}
	x := fmt.Errorf("y")
	defer x.Close()
	b := []byte(x)
	return wrap(fmt.Errorf("z %d", 1, 2).
		Unwrap(), len(b))
}
`
