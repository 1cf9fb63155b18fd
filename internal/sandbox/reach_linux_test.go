package sandbox

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/creack/pty"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// fromAgent runs text as a command of an agent that is confined like the command.
func fromAgent(r Rules, text string, more ...string) *exec.Cmd {
	path, args, entry := Wrap(self(), Order{Path: "/bin/sh", Rules: r}, []string{"sh", "-c", text})
	return command(applied, r, env("", more...), "/usr/bin/env", append([]string{entry, path}, args[1:]...)...)
}

// TestTerminalsOfOthers is about the terminal of the user, on which a command
// could paint a question that qq did not ask.
func TestTerminalsOfOthers(t *testing.T) {
	needs(t, abiDevices)
	for name, text := range map[string]string{
		"writing":      `echo painted > "$U"`,
		"read, write":  `exec 3<> "$U" && echo painted >&3`,
		"appending":    `echo painted >> "$U"`,
		"a link":       `ln -s "$U" "$W/link" && echo painted > "$W/link"`,
		"its settings": `stty -F "$U" columns 77 && echo painted > "$U"`,
	} {
		t.Run(name, func(t *testing.T) {
			person, terminal, err := pty.Open()
			require.NoError(t, err)
			defer person.Close()
			defer terminal.Close()
			shown := bufio.NewReader(person)
			type runner func(r Rules, text string, more ...string) *exec.Cmd
			try := func(run runner, write ...string) (said string, err error) {
				out, err := run(Rules{Write: write}, text, "U="+terminal.Name(), "W="+t.TempDir()).CombinedOutput()
				_, _ = io.WriteString(terminal, "end\n")
				for !strings.Contains(said, "end") && !t.Failed() {
					line, readErr := shown.ReadString('\n')
					require.NoError(t, readErr)
					said += line
				}
				return said + string(out), err
			}
			confined := func(r Rules, text string, more ...string) *exec.Cmd {
				return script(wrapped, r, text, more...)
			}
			said, err := try(func(r Rules, text string, more ...string) *exec.Cmd {
				return script(free, r, text, more...)
			})
			require.NoError(t, err, said)
			require.Equal(t, "painted\r\nend\r\n", said)
			for _, write := range [][]string{nil, {t.TempDir()}, {os.TempDir()}} {
				for _, run := range []func(Rules, string, ...string) *exec.Cmd{confined, fromAgent} {
					said, err := try(run, write...)
					require.Error(t, err, said)
					assert.True(t, strings.HasPrefix(said, "end\r\n"), said)
					assert.Contains(t, said, "ermission denied")
				}
			}
		})
	}
}

// TestNewTerminals: an agent opens terminals for its commands; a command does not.
func TestNewTerminals(t *testing.T) {
	needs(t, abiTruncate)
	for _, h := range []how{free, applied, wrapped} {
		out, err := inTerminal(t, script(h, Rules{}, `script -qec 'test -t 0 && echo x > /dev/tty' /dev/null`))
		if h == wrapped {
			require.Error(t, err)
			assert.Contains(t, out, "ermission denied")
			continue
		}
		if h == free && err != nil {
			held(t, []byte(out))
		}
		require.NoError(t, err, out)
	}
}

// TestEnvironmentOfOthers is about secrets in the environment of qq. To root with
// CAP_PERFMON, Linux shows the environment of every process.
func TestEnvironmentOfOthers(t *testing.T) {
	needs(t, abiTruncate)
	secret := "canary-" + strconv.Itoa(os.Getpid())
	owner := exec.Command("/bin/cat")
	owner.Env = []string{"SECRET=" + secret}
	stdin, err := owner.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, owner.Start())
	defer func() {
		stdin.Close()
		assert.NoError(t, owner.Wait())
	}()
	text := fmt.Sprintf("cat /proc/%d/environ", owner.Process.Pid)
	require.Contains(t, succeeds(t, script(free, Rules{}, text)), secret)
	for _, r := range []Rules{{}, {Write: []string{t.TempDir()}}} {
		for _, cmd := range []*exec.Cmd{script(wrapped, r, text), fromAgent(r, text)} {
			out, err := cmd.CombinedOutput()
			require.Error(t, err)
			assert.NotContains(t, string(out), secret)
			assert.Contains(t, string(out), "denied")
		}
	}
}

// TestSteeringOthers: a program does not change limits or priority of a process of the same user, and finds no keys.
// One that may write keeps System V IPC, which its own namespace encloses.
func TestSteeringOthers(t *testing.T) {
	needs(t, abiTruncate)
	other := exec.Command("/bin/cat")
	stdin, err := other.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, other.Start())
	defer func() {
		stdin.Close()
		assert.NoError(t, other.Wait())
	}()
	id := strconv.Itoa(other.Process.Pid)
	control := succeeds(t, role(free, Rules{}, "steer", id))
	assert.Contains(t, control, "prlimit: errno 0\n")
	assert.Equal(t, 9, strings.Count(control, "\n"), control)
	for _, h := range []how{applied, wrapped} {
		assert.Empty(t, succeeds(t, role(h, Rules{}, "steer", id)))
		assert.Equal(t, "shmget: errno 0\n", succeeds(t, role(h, Rules{Write: []string{t.TempDir()}}, "steer", id)))
	}
}

// TestPowers looks what of the powers of root a program finds that a program of a
// command starts.
func TestPowers(t *testing.T) {
	needs(t, 1)
	sets := func(h how) map[string]uint64 {
		found := map[string]uint64{}
		for line := range strings.Lines(succeeds(t, script(h, Rules{}, `sh -c 'grep ^Cap /proc/self/status; :'; :`))) {
			name, hex, _ := strings.Cut(strings.TrimSpace(line), ":\t")
			bits, err := strconv.ParseUint(hex, 16, 64)
			require.NoError(t, err, line)
			found[name] = bits
		}
		require.Len(t, found, 5)
		return found
	}
	var all uint64
	for _, c := range powers() {
		all |= 1 << c
	}
	before, after := sets(free), sets(wrapped)
	if before["CapEff"]&all == 0 {
		assert.Equal(t, before, after, "nothing to drop, nothing done")
		t.Skip("this user has no such powers")
	}
	for name, bits := range before {
		if name == "CapBnd" && before["CapEff"]&(1<<unix.CAP_SETPCAP) == 0 {
			continue
		}
		assert.Equal(t, fmt.Sprintf("%x", bits&^all), fmt.Sprintf("%x", after[name]), name)
	}
}

// TestParentIsOutOfReach: the descriptors of a confined agent, its control pipe
// among them, are not for its commands.
func TestParentIsOutOfReach(t *testing.T) {
	needs(t, abiTruncate)
	dir := t.TempDir()
	for _, c := range []struct {
		name         string
		agent, child Rules
	}{
		{"read-only", Rules{}, Rules{}},
		{"equal", Rules{Write: []string{dir}}, Rules{Write: []string{dir}}},
		{"narrower", Rules{Write: []string{dir}}, Rules{}},
		{"wider", Rules{}, Rules{Write: []string{"/"}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			run := func(h how) string {
				rules, err := json.Marshal(c.child)
				require.NoError(t, err)
				cmd := role(free, Rules{}, "parent", string(h), string(rules))
				cmd.Env = append(cmd.Env, rulesEntry(c.agent))
				return succeeds(t, cmd)
			}
			assert.Equal(t, "looked\n", run(wrapped))
			if out := run(free); Probe().ABI >= abiThreads {
				assert.Contains(t, out, "read /proc", "a command in the sandbox of its agent reaches it")
				assert.Contains(t, out, "write /proc")
				assert.Contains(t, out, "task/", out)
				assert.Contains(t, out, "environment\n", out)
			}
		})
	}
}

// reaching names each descriptor of the process $QQ among $FDS that it can open.
const reaching = `for d in /proc/$QQ/fd /proc/$QQ/task/*/fd; do
	for n in $FDS; do
		(exec 9< "$d/$n") 2>/dev/null && echo "read $d/$n"
		(exec 9>> "$d/$n") 2>/dev/null && echo "write $d/$n"
		(exec 9<> "$d/$n") 2>/dev/null && echo "both $d/$n"
	done
done
cat "/proc/$QQ/environ" > /dev/null 2>&1 && echo environment
cat "/proc/$QQ/maps" > /dev/null 2>&1 && echo maps
echo looked`

// parent is an agent: it has a pipe and a file, restricts itself and starts
// a command that looks for them.
func parent(h, rules string) error {
	var agent, child Rules
	if err := errors.Join(json.Unmarshal([]byte(os.Getenv(rulesEnv)), &agent),
		json.Unmarshal([]byte(rules), &child)); err != nil {
		return err
	}
	reader, writer, err := os.Pipe()
	if err != nil {
		return err
	}
	file, err := os.Open(self())
	if err != nil {
		return err
	}
	if err := Apply(agent); err != nil {
		return err
	}
	cmd := script(how(h), child, reaching, fmt.Sprintf("QQ=%d", os.Getpid()),
		fmt.Sprintf("FDS=%d %d %d", reader.Fd(), writer.Fd(), file.Fd()))
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	return errors.Join(cmd.Run(), reader.Close(), writer.Close(), file.Close())
}
