package scenario

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// unfenced are the shell commands that become a process which may make no namespaces.
const unfenced = `set -- unshare --user --map-root-user sh -c ` +
	`'for kind in user pid; do echo 0 >/proc/sys/user/max_${kind}_namespaces || exit 99; done; exec "$0" "$@"' ` +
	`"$0" "$@"; exec "$@"`

// TestNightKilled: SIGKILL of qq leaves nothing behind, whatever its agents have started, with namespaces
// and without, for single runs and batches.
func TestNightKilled(t *testing.T) {
	if out, err := exec.CommandContext(t.Context(), "unshare", "--user", "--map-root-user", "true").CombinedOutput(); err != nil {
		t.Skipf("no user namespaces to forbid namespaces in: %v: %s", err, out)
	}
	hands := map[string]string{
		"a command":          "echo > ready; sleep 600 & wait",
		"it ignores signals": "trap '' HUP TERM INT; echo > ready; sleep 600 & wait",
		"its own session":    `setsid sh -c 'trap "" HUP TERM; echo > ready; sleep 600' & wait`,
		"far away":           `(setsid setsid sh -c 'trap "" HUP TERM; sleep 600' &) ; echo > ready; sleep 600`,
	}
	for name, command := range hands {
		step, err := json.Marshal(map[string]any{
			"tool": "run_pty_cmd", "times": 1, "arguments": map[string]string{"command": command},
		})
		require.NoError(t, err)
		for _, args := range [][]string{
			{"-a", "worker", "--auto-approve", "-m", string(step)},
			{"batch", "--no-bar", "--auto-approve", "tasks.jsonl"},
		} {
			for _, how := range []string{"true", unfenced} {
				t.Run(fmt.Sprintf("%s/%s/%t", name, args[0], how == unfenced), func(t *testing.T) {
					b := newNight(t, 0, "script")
					b.env = append(b.env, "NIGHT="+b.bin)
					b.file("tasks.jsonl", fmt.Sprintf(`{"task":%q,"agent":"worker"}`, step))
					q := b.under(how, args...)
					b.until(runTimeout, "the command runs", func() bool {
						_, err := os.Stat(filepath.Join(b.work, "ready"))
						return err == nil
					})
					require.NotEmpty(t, b.descendants())
					require.NoError(t, q.cmd.Process.Kill())
					q.wait()
					if !assert.Eventually(t, func() bool { return len(b.descendants()) == 0 }, goneTimeout, pollEvery) {
						for _, pid := range b.descendants() {
							line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
							t.Logf("left: %d %q", pid, line)
							assert.NoError(t, syscall.Kill(pid, syscall.SIGKILL))
						}
					}
				})
			}
		}
	}
}

// descendants are the processes with an environment that only those have which b started.
func (b *night) descendants() (pids []int) {
	all, err := filepath.Glob("/proc/[0-9]*/environ")
	require.NoError(b.t, err)
	for _, name := range all {
		environ, err := os.ReadFile(name)
		if err != nil || !bytes.Contains(environ, []byte("NIGHT="+b.bin)) {
			continue
		}
		pid, err := strconv.Atoi(strings.Split(name, "/")[2])
		require.NoError(b.t, err)
		pids = append(pids, pid)
	}
	return pids
}
