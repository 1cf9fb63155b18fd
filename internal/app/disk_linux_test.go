package app

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"qq/internal/app/command"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestHomeWithoutRoom: if the disk of QQ_HOME is full or read-only, the error does not
// blame the input.
func TestHomeWithoutRoom(t *testing.T) {
	const noMount = 77
	for name, c := range map[string]struct {
		prepare, problem, hint string
		code                   int
	}{
		"full": {`head -c 4096 /dev/zero >"$QQ_HOME/ballast"`, "no space left on device",
			"free some space on the disk of ", 3},
		"read-only": {`mount -o remount,ro none "$QQ_HOME"`, "read-only file system",
			"QQ_HOME names a folder that you may write to", 2},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.file("tasks.txt", "one\n")
			home := command.Environment(w.env).Get("QQ_HOME")
			require.NoError(t, os.MkdirAll(home, 0o700))
			cmd := w.command("batch", "tasks.txt")
			self := filepath.Join(w.dir, "qq")
			require.NoError(t, os.Symlink(cmd.Path, self))
			cmd.Path = "/bin/sh"
			cmd.Args = []string{
				"sh",
				"-c",
				`mount -t tmpfs -o size=4k none "$QQ_HOME" || exit 77; ` + c.prepare + ` && exec "$0" batch tasks.txt`,
				self,
			}
			cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS} // the disk ends with it
			var problems strings.Builder
			cmd.Stderr = &problems
			if err := cmd.Run(); cmd.ProcessState == nil || cmd.ProcessState.ExitCode() == noMount {
				t.Skip("no mount:", err)
			}
			assert.Equal(t, c.code, cmd.ProcessState.ExitCode())
			lines := strings.Split(strings.TrimSuffix(problems.String(), "\n"), "\n")
			require.Len(t, lines, 2, problems.String())
			assert.Contains(t, lines[0], c.problem)
			assert.Contains(t, lines[0], home, "which folder")
			assert.True(t, strings.HasPrefix(lines[1], "  hint: "), lines[1])
			assert.Contains(t, lines[1], c.hint)
			assert.NotContains(t, problems.String(), "mend the input")
		})
	}
}
