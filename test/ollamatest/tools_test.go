package ollamatest

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// fakeGo stands in for the go command: it notes each build, and "builds" what
// the test wrote into the file "program", or fails without one.
const fakeGo = `#!/bin/sh
case "$1 $2" in
"list -m") echo v9.9.9 ;;
"env GOVERSION") echo go1.99 ;;
"build "*)
	echo build >>"$FAKE/builds"
	while [ $# -gt 0 ]; do [ "$1" = -o ] && out=$2; shift; done
	echo half >"$out" && cp "$FAKE/program" "$out" && chmod 700 "$out" ;;
*) exit 99 ;;
esac
`

// tools runs server/tools.sh with a fake go and a cache of its own.
type tools struct {
	t          *testing.T
	fake, path string
}

func newTools(t *testing.T) *tools {
	if _, err := os.Stat("/usr/include/nlohmann/json.hpp"); err != nil {
		t.Skip("the headers that tools.sh would install are missing")
	}
	fake := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(fake, "go"), []byte(fakeGo), 0o700))
	return &tools{t, fake, fake + ":" + os.Getenv("PATH")}
}

func (x *tools) program(text string) {
	require.NoError(x.t, os.WriteFile(filepath.Join(x.fake, "program"), []byte(text), 0o700))
}

func (x *tools) run() (stdout, stderr string, err error) {
	cmd := exec.Command("../server/tools.sh")
	cmd.Env = []string{"PATH=" + x.path, "FAKE=" + x.fake, "HOME=" + x.fake, "XDG_CACHE_HOME=" + x.fake + "/cache"}
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err = cmd.Run()
	return strings.TrimSpace(out.String()), errs.String(), err
}

func (x *tools) builds() int {
	b, _ := os.ReadFile(filepath.Join(x.fake, "builds"))
	return bytes.Count(b, []byte("\n"))
}

// cached are the files in the cache but the lock.
func (x *tools) cached() []string {
	all, err := filepath.Glob(x.fake + "/cache/qq-test/*")
	require.NoError(x.t, err)
	var files []string
	for _, f := range all {
		if filepath.Ext(f) != ".lock" {
			files = append(files, f)
		}
	}
	return files
}

// TestToolsBuildsOnce, however many ask at the same time.
func TestToolsBuildsOnce(t *testing.T) {
	x := newTools(t)
	x.program("#!/bin/sh\necho it runs\n")
	var paths [4]string
	var all sync.WaitGroup
	for i := range paths {
		all.Go(func() {
			out, errs, err := x.run()
			assert.NoError(t, err, errs)
			paths[i] = out
		})
	}
	all.Wait()
	for _, p := range paths {
		assert.Equal(t, paths[0], p)
	}
	assert.Equal(t, 1, x.builds())
	assert.Equal(t, paths[:1], x.cached())
	out, err := exec.Command(paths[0]).CombinedOutput()
	require.NoError(t, err)
	assert.Equal(t, "it runs\n", string(out))
}

// TestToolsFailedBuild leaves nothing that a later run would take for a server.
func TestToolsFailedBuild(t *testing.T) {
	x := newTools(t)
	out, _, err := x.run()
	require.Error(t, err)
	assert.Empty(t, out)
	assert.Empty(t, x.cached())
	x.program("now it works")
	out, errs, err := x.run()
	require.NoError(t, err, errs)
	assert.Equal(t, []string{out}, x.cached())
	assert.Equal(t, 2, x.builds())
}

// TestToolsSaysWhatIsMissing names the program and what to do.
func TestToolsSaysWhatIsMissing(t *testing.T) {
	x := newTools(t)
	bare := t.TempDir()
	for _, name := range []string{"bash", "dirname", "sha256sum", "cut", "grep", "mkdir", "rm"} {
		path, err := exec.LookPath(name)
		require.NoError(t, err)
		require.NoError(t, os.Symlink(path, filepath.Join(bare, name)))
	}
	x.path = bare
	_, errs, err := x.run()
	require.Error(t, err)
	assert.Equal(t, "tools.sh: go is missing: install Go 1.26 or newer, https://go.dev/dl\n", errs)

	x.path = x.fake + ":" + bare
	_, errs, err = x.run()
	require.Error(t, err)
	assert.Equal(t, "tools.sh: gcc is missing: install a C compiler (Debian: apt-get install gcc)\n", errs)
	assert.Zero(t, x.builds())
}
