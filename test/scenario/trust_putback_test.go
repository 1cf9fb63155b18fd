package scenario

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestPutBackWhole: a run that is ended puts back all that its command changed before it ends, however long that takes.
// The command ignores SIGTERM. Where it has no view, there is much to put back.
func TestPutBackWhole(t *testing.T) {
	const each = 400
	folders := []string{".vscode", ".husky", ".github", ".claude", ".agents", ".env.d", ".env.e", ".env.f"}
	const command = `trap '' TERM HUP; for f in .vscode/* .husky/* .github/* .claude/* .agents/* .env.?/*; do ` +
		`echo bad > $f; done; : > ready; while :; do sleep 0.1; done`
	for _, place := range workPlaces {
		t.Run(place, func(t *testing.T) {
			w, m := sandboxWorld(t, "no namespaces", func(w *world) {
				for _, folder := range folders {
					require.NoError(t, os.Mkdir(filepath.Join(w.work, folder), 0o777))
					for i := range each {
						name := filepath.Join(w.work, folder, fmt.Sprint(i))
						require.NoError(t, os.WriteFile(name, []byte("good\n"), 0o666))
					}
				}
			})
			run := workDo(workCall("run_pty_cmd", "command", command))
			m.agents["run"] = workSteps(run, workText("Done."))
			m.agents["lead"] = workSteps(
				workDo(workCall("delegate_task", "agent", "executor", "task", "Run. [[run]]")), workText("Done."))
			args := []string{"Run. [[run]]", "--auto-approve", "--agent", "executor"}
			if place == "child" {
				args = []string{"Lead. [[lead]]", "--auto-approve"}
			}
			q := w.start("", args...)
			w.until(runTimeout, "the command has written", func() bool {
				_, err := os.Stat(filepath.Join(w.work, "ready"))
				return err == nil
			})
			require.NoError(t, q.cmd.Process.Signal(syscall.SIGINT))
			e := q.wait()
			assert.Equal(t, 130, e.code, e.stderr)
			bad := 0
			for _, folder := range folders {
				for i := range each {
					text, err := os.ReadFile(filepath.Join(w.work, folder, fmt.Sprint(i)))
					if err != nil || strings.TrimSpace(string(text)) != "good" {
						bad++
					}
				}
			}
			assert.Zero(t, bad, "of %d files are not as before; stderr %q", each*len(folders), e.stderr)
			assert.Empty(t, w.processes())
		})
	}
}
