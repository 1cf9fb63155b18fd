package files

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"qq/internal/standin"
)

// large is a text of about 5 MB.
func large() string {
	var b strings.Builder
	for i := 0; b.Len() < 5<<20; i++ {
		fmt.Fprintf(&b, "\tline %d of a file that is as large as files get\n", i)
	}
	return b.String()
}

// Aim: 50 ms, fsync included.
func BenchmarkEditLargeFile(b *testing.B) {
	_, set := plantAll(b, map[string]string{"x": large()})
	for b.Loop() {
		for _, e := range [][2]string{{"line 90000 of", "LINE 90000 of"}, {"LINE 90000 of", "line 90000 of"}} {
			r := standin.CallTool(b, set, "edit_file", standin.Args("path", "x", "old_text", e[0], "new_text", e[1]))
			require.False(b, r.Failed, r.Content)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Microseconds())/1000/2/float64(b.N), "ms/edit")
}

func BenchmarkPlanEditLargeFile(b *testing.B) {
	_, set := plantAll(b, map[string]string{"x": large()})
	for b.Loop() {
		_, err := intent(b, set, "edit_file", standin.Args("path", "x", "old_text", "line 90000 of", "new_text",
			"LINE"))
		require.NoError(b, err)
	}
}

func BenchmarkEditNotFoundInLargeFile(b *testing.B) {
	_, set := plantAll(b, map[string]string{"x": large()})
	for b.Loop() {
		r := standin.CallTool(b, set, "edit_file", standin.Args("path", "x", "old_text", "line 90000 of a fill",
			"new_text", "LINE"))
		require.True(b, r.Failed)
	}
}

// The tree to search is named by QQ_BENCH_TREE.
func BenchmarkGrepTree(b *testing.B) {
	dir := os.Getenv("QQ_BENCH_TREE")
	if dir == "" {
		b.Skip("QQ_BENCH_TREE is not set")
	}
	root, err := os.OpenRoot(dir)
	require.NoError(b, err)
	defer root.Close()
	set := Open(root).Reading()
	for b.Loop() {
		standin.CallTool(b, set, "grep_file", standin.Args("pattern", "func New[A-Z]"))
	}
}
