package scenario

import (
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qq/test/terminal"
)

// reachForParent tries to open each descriptor of the process that started the
// command, where a question can be asked and answered, and then, to show that
// this is how it is done, those of a process of its own. In a PID namespace,
// /proc has other numbers than $PPID and $!.
const reachForParent = `reach() {
	for d in /proc/$1/fd /proc/$1/task/*/fd; do
		for n in 0 1 2 3 4 5 6 7 8 9 10 11 12; do
			(exec 8< "$d/$n") 2>/dev/null && echo "$2 read $n"
			(exec 8>> "$d/$n") 2>/dev/null && echo "$2 write $n"
		done
	done
}
while read key value; do [ "$key" != PPid: ] || parent=$value; done < /proc/self/status
read name < "/proc/$parent/comm" && echo "of $name"
reach $parent parent
own=$(sh -c 'read pid rest < /proc/self/stat; echo $pid; exec sleep 60 3> /dev/null >&3' &)
reach $own own`

// TestBreakoutToOthers: a command, of whatever agent, neither paints on the
// terminal where the user is asked, nor reads the secrets in the environment of a
// qq, nor reaches the descriptors of its agent. To root, Linux would show all.
func TestBreakoutToOthers(t *testing.T) {
	for _, place := range workPlaces {
		for _, readOnly := range []bool{true, false} {
			name := place
			if readOnly {
				name += ", read only"
			}
			t.Run(name, func(t *testing.T) {
				w, m := newWorkShellWorld(t)
				person, screen, err := terminal.Open()
				require.NoError(t, err)
				defer person.Close()
				defer screen.Close()
				const secret = "canary-8d21b0f4"
				s := workShell{place: place, readOnly: readOnly, env: []string{"FAKE_API_KEY=" + secret}}
				answers := s.run(t, w, m, []string{
					"echo painted > " + screen.Name(),
					"stty -F " + screen.Name() + " -echo",
					`cat /proc/[0-9]*/environ 2>/dev/null | tr '\0' '\n' | grep -a FAKE_API; echo looked`,
					reachForParent,
					`echo out > /dev/stdout; echo err > /dev/stderr; echo tty > /dev/tty`,
				})
				assert.Contains(t, answers[0], "ermission denied")
				assert.Contains(t, answers[1], "ermission denied")
				_, err = io.WriteString(screen, "end")
				require.NoError(t, err)
				shown := make([]byte, 100)
				n, err := person.Read(shown)
				require.NoError(t, err)
				assert.Equal(t, "end", string(shown[:n]), "on the terminal of the user")

				assert.NotContains(t, answers[2], secret)
				assert.True(t, strings.HasPrefix(answers[2], "looked\n"), answers[2])
				assert.Regexp(t, `^of (qq.*|exe)\n`, answers[3])
				assert.NotContains(t, answers[3], "parent")
				assert.Contains(t, answers[3], "own write 3\n")
				assert.Equal(t, "out\nerr\ntty\n[exit code 0]", answers[4], "its own terminal is as ever")
			})
		}
	}
}
