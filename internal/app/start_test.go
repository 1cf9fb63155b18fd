package app

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The budget of a start, which is paid once per task. Bytes are the same in each
// run and carry the tight limit; the clock is not, so the best of some runs
// counts.
const (
	maxInitBytes   = 640 << 10
	maxInitMS      = 0.5      // of one package
	maxBinaryBytes = 26 << 20 // 1.7 MB of it are the faces: the pages, the console, qq top
	initRuns       = 5
)

// TestInitBudget limits the time and memory that the packages of qq need before main, and
// the size of the binary. It measures $QQ_BIN, or a binary built with the flags of the
// Makefile.
func TestInitBudget(t *testing.T) {
	bin := os.Getenv("QQ_BIN")
	if bin == "" {
		bin = buildQQ(t)
	}
	info, err := os.Stat(bin)
	require.NoError(t, err)
	assert.Less(t, info.Size(), int64(maxBinaryBytes), "size of the binary")

	line := regexp.MustCompile(`(?m)^init (\S+) @[\d.]+ ms, ([\d.e+-]+) ms clock, (\d+) bytes, \d+ allocs$`)
	best := map[string]float64{}
	total := 0
	for range initRuns {
		cmd := exec.Command(bin, "version")
		cmd.Env = []string{"GODEBUG=inittrace=1", "HOME=" + t.TempDir()}
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, string(out))
		packages := line.FindAllStringSubmatch(string(out), -1)
		require.NotEmpty(t, packages, "the runtime traces init: %s", out)
		total = 0
		for _, p := range packages {
			ms, err := strconv.ParseFloat(p[2], 64)
			require.NoError(t, err)
			bytes, err := strconv.Atoi(p[3])
			require.NoError(t, err)
			total += bytes
			if least, ok := best[p[1]]; !ok || ms < least {
				best[p[1]] = ms
			}
		}
	}
	t.Logf("%d KiB in %d packages, a binary of %d MiB", total>>10, len(best), info.Size()>>20)
	assert.Less(t, total, maxInitBytes, "bytes allocated before main")
	for name, ms := range best {
		assert.LessOrEqual(t, ms, maxInitMS, "milliseconds of %s before main", name)
	}
}

// buildQQ builds qq with the flags of the Makefile.
func buildQQ(t *testing.T) string {
	t.Helper()
	bin := filepath.Join(t.TempDir(), "qq")
	cmd := exec.Command(
		"go",
		"build",
		"-trimpath",
		"-tags",
		"urfave_cli_no_docs,nethttpomithttp2",
		"-ldflags",
		"-s -w",
		"-o",
		bin,
		"qq/cmd/qq",
	)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
	return bin
}
