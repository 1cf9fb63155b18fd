package scenario

import (
	"os/exec"
	"strconv"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestProcessLimit: the limit of processes is about a command and what it starts, not about other processes of the
// user. Who reaches it reads its name.
func TestProcessLimit(t *testing.T) {
	const few, many = "i=0; while [ $i -lt 30 ]; do sleep 2 & i=$((i+1)); done; echo all; wait",
		"i=0; while [ $i -lt 80 ]; do sleep 60 & i=$((i+1)); done; echo all; wait"
	for _, namespaces := range []bool{true, false} {
		t.Run("namespaces "+strconv.FormatBool(namespaces), func(t *testing.T) {
			for range 200 {
				c := exec.CommandContext(t.Context(), "sleep", "60")
				if syscall.Getuid() == 0 {
					c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: sandboxUser, Gid: sandboxUser}}
				}
				require.NoError(t, c.Start())
				t.Cleanup(func() { _ = c.Wait() }) // the context ended it
			}
			if !namespaces {
				sandboxNoNamespaces(t)
			}
			w, m := sandboxWorld(t, "user", func(w *world) { w.file("f", "") })
			w.env = append(w.env, "QQ_COMMAND_PROCESSES=50")
			answers := workShell{place: "root"}.run(t, w, m, []string{few, many})
			assert.Contains(t, answers[0], "all\n[exit code 0]")
			assert.NotContains(t, answers[1], "exit code 0")
			assert.Contains(t, answers[1], "QQ_COMMAND_PROCESSES")
		})
	}
}
