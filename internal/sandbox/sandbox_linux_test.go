package sandbox

import (
	"errors"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func TestSupport(t *testing.T) {
	for _, c := range []struct {
		s        Support
		line     string
		enforced bool
		fix      string
	}{
		{Support{err: unix.ENOSYS}, "none: this kernel has no Landlock", false,
			"use Linux 6.2 or later with CONFIG_SECURITY_LANDLOCK"},
		{Support{err: unix.EOPNOTSUPP}, "none: Landlock is switched off in this kernel", false,
			"add landlock to the lsm= list of the kernel command line, and start the system again"},
		{Support{err: unix.EPERM}, "none: Landlock may not be used: operation not permitted", false,
			"let the container make the landlock_* system calls (its seccomp profile)"},
		{Support{ABI: 1}, "landlock ABI 1 restricts writing, renaming", false,
			"use Linux 6.2 or later: this one cannot keep a program from emptying files"},
		{Support{ABI: 3}, "landlock ABI 3 restricts writing, renaming, truncating", true, ""},
		{Support{ABI: 5}, "landlock ABI 5 restricts writing, renaming, truncating, devices", true, ""},
		{Support{ABI: 7, Filter: true},
			"landlock ABI 7 restricts writing, renaming, truncating, devices, signals of commands; seccomp: terminal " +
				"input, other processes, keys, file attributes", true, ""},
		{Support{ABI: 8}, "landlock ABI 8 restricts writing, renaming, truncating, devices, signals", true, ""},
	} {
		assert.Equal(t, c.line, c.s.String())
		assert.Equal(t, c.enforced, c.s.Enforced(), c.line)
		assert.Equal(t, c.fix, c.s.Fix(), c.line)
	}
}

func TestNothingToEnforceWith(t *testing.T) {
	err := enforce(Support{err: unix.ENOSYS}, Rules{}, true)
	require.ErrorIs(t, err, errors.ErrUnsupported)
	require.EqualError(t, err, "restrict this process: this kernel has no Landlock: unsupported operation")
}

// TestRightsOfOldKernels has the bits that the kernel documents for each version:
// one that it does not know would fail the whole.
func TestRightsOfOldKernels(t *testing.T) {
	const reading = 1<<0 | 1<<2 | 1<<3
	for abi, bits := range map[int]int{1: 13, 2: 14, 3: 15, 4: 15, 5: 16, 6: 16, 7: 16, 9: 16} {
		assert.EqualValues(t, 1<<bits-1-reading, Support{ABI: abi}.writes(), "ABI %d", abi)
	}
}

func TestExecReturnsWhenNobodyAsks(t *testing.T) {
	Exec([]string{"PATH=/bin", variable + "X=1", "X=" + variable + "=1"})
}

func TestExecRefuses(t *testing.T) {
	needs(t, 1)
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"set by hand":     {[]string{"agents"}, "QQ_SANDBOX is set, but no program is named"},
		"no command line": {[]string{`{"path":"L2Jpbi90cnVl"}`}, "no program is named"},
		"no JSON":         {[]string{"agents", "list"}, "read the rules: invalid character"},
		"no path":         {[]string{`{}`, "true"}, "the program is named without a path"},
		"no such program": {[]string{`{"path":"L3h4eA=="}`, "true"}, "run /xxx: no such file or directory"},
		"folder that is not": {[]string{`{"path":"L2Jpbi90cnVl","write":["L3h4eA=="]}`, "true"},
			`writable folder "/xxx"`},
	} {
		t.Run(name, func(t *testing.T) {
			cmd := command(free, Rules{}, env("", variable+"="), self(), c.args...)
			out, err := cmd.CombinedOutput()
			require.Error(t, err)
			assert.Equal(t, refusal, cmd.ProcessState.ExitCode())
			assert.Regexp(t, `^qq: sandbox: .*\n$`, string(out))
			assert.Contains(t, string(out), c.want)
		})
	}
}

// TestWrapHandsOn compares what a program sees with and without a sandbox.
func TestWrapHandsOn(t *testing.T) {
	needs(t, 1)
	text := `printf '%s|' "$0" "$@"; env; ulimit -n; pwd; exit 7`
	see := func(h how) (string, int) {
		cmd := command(h, Rules{}, env("", "A=\xff b"), "/bin/sh", "-c", text, "zero", "", "one two", "\xfe")
		cmd.Dir = "/usr"
		out, _ := cmd.CombinedOutput()
		return string(out), cmd.ProcessState.ExitCode()
	}
	want, code := see(free)
	got, wrappedCode := see(wrapped)
	require.Contains(t, want, "zero||one two|\xfe|")
	assert.Equal(t, want, got)
	assert.NotContains(t, got, variable)
	assert.Equal(t, []int{7, 7}, []int{code, wrappedCode})
}

// TestFolderThatIsNoText takes a name that is not UTF-8.
func TestFolderThatIsNoText(t *testing.T) {
	needs(t, 1)
	dir := t.TempDir() + "/\xe9t\xe9"
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Skip("this file system takes text only")
	}
	succeeds(t, script(wrapped, Rules{Write: []string{dir}}, `echo x > "$D/new"`, "D="+dir))
}

// FuzzReadOrder looks that whatever is taken for an order could come from Wrap.
func FuzzReadOrder(f *testing.F) {
	_, args, _ := Wrap("", Order{Path: "/bin/sh", Rules: Rules{Write: []string{"/a", "/\xff"}}, FileSize: 1,
		Processes: 2, Groups: []int{4}, Report: 3, NoSockets: true, Mountable: true,
		View: &View{[]string{"/a/b"}, []string{"/a/c"}, []string{"/d"}, []string{"/d/e"}, []string{"/f"}}}, nil)
	f.Add(args[1])
	f.Add(`{"path":"L2Jpbi90cnVl"}`)
	f.Add(`{"path":"L2Jpbi90cnVl","write":[null]}`)
	f.Fuzz(func(t *testing.T, text string) {
		o, err := readOrder(text)
		if err != nil {
			return
		}
		require.Contains(t, o.Path, "/")
		_, args, _ := Wrap("", o, nil)
		back, err := readOrder(args[1])
		require.NoError(t, err)
		_, again, _ := Wrap("", back, nil)
		require.Equal(t, args, again)
	})
}

// TestLongOrder: an order that is too long for an argument is read from a file, and nothing else is taken for that.
func TestLongOrder(t *testing.T) {
	needs(t, 1)
	o := Order{Path: "/bin/sh", Rules: Rules{Write: slices.Repeat([]string{t.TempDir()}, 5000)}}
	start := func(change func([]string), files ...*os.File) (string, error) {
		path, args, entry := Wrap(self(), o, []string{"sh", "-c", "ls -l /proc/self/fd; echo started"})
		f, err := Shorten(args, 3)
		require.NoError(t, err)
		defer f.Close()
		require.Equal(t, "@3", args[1])
		change(args)
		cmd := &exec.Cmd{Path: path, Args: args, Env: append(env(""), entry), ExtraFiles: append(files, f)}
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	out, err := start(func([]string) {})
	require.NoError(t, err, out)
	assert.Contains(t, out, "started\n")
	assert.NotContains(t, out, "memfd", "the program does not inherit it")
	r, w, err := os.Pipe()
	require.NoError(t, err)
	defer r.Close()
	defer w.Close()
	for _, word := range []string{"@", "@0", "@2", "@-3", "@03", "@+3", "@3 ", "@77", "@99999999999", "@5"} {
		out, err := start(func(args []string) { args[1] = word }, r)
		assert.Error(t, err, word)
		assert.Contains(t, out, "qq: sandbox: ", word)
		assert.NotContains(t, out, "started", word)
	}
	out, err = start(func([]string) {}, r)
	assert.Error(t, err)
	assert.Contains(t, out, "descriptor 3 is not the file of an order")

	_, args, _ := Wrap("", Order{Path: "/bin/sh"}, nil)
	f, err := Shorten(args, 3)
	require.NoError(t, err)
	assert.Nil(t, f)
	_, args, _ = Wrap("", Order{Path: strings.Repeat("/", maxOrder)}, nil)
	_, err = Shorten(args, 3)
	assert.ErrorContains(t, err, "too many files")
}

// took is how long Apply takes in a fresh process.
func took(t testing.TB, procs int, write ...string) time.Duration {
	t.Helper()
	cmd := role(free, Rules{}, "time", write...)
	cmd.Env = append(cmd.Env, "GOMAXPROCS="+strconv.Itoa(procs))
	ns, err := strconv.Atoi(strings.TrimSpace(succeeds(t, cmd)))
	require.NoError(t, err)
	return time.Duration(ns)
}

// unrestricted, in place of folders, leaves a process as it is.
const unrestricted = "-"

// BenchmarkApply restricts fresh processes and says what that took inside of
// them, and how much longer they lived than others; both as medians.
func BenchmarkApply(b *testing.B) {
	needs(b, 1)
	dir := b.TempDir()
	for _, procs := range []int{1, 2} {
		for name, write := range map[string][]string{"read-only": nil, "writing": {dir}} {
			b.Run(name+"/procs="+strconv.Itoa(procs), func(b *testing.B) {
				var apply, restricted, free []time.Duration
				for b.Loop() {
					begin := time.Now()
					apply = append(apply, took(b, procs, write...))
					between := time.Now()
					took(b, procs, unrestricted)
					restricted, free = append(restricted, between.Sub(begin)), append(free, time.Since(between))
				}
				b.ReportMetric(middle(apply), "µs/apply")
				b.ReportMetric(middle(restricted)-middle(free), "µs/process")
			})
		}
	}
}

// middle is the median in microseconds.
func middle(times []time.Duration) float64 {
	slices.Sort(times)
	return float64(times[len(times)/2].Nanoseconds()) / 1e3
}

// BenchmarkWrap compares a program in a sandbox with a free one.
func BenchmarkWrap(b *testing.B) {
	needs(b, 1)
	for _, h := range []how{free, wrapped} {
		b.Run(string(h), func(b *testing.B) {
			for b.Loop() {
				succeeds(b, command(h, Rules{}, env(""), "/bin/true"))
			}
		})
	}
}

// BenchmarkExecAbsent is what each start of a process pays.
func BenchmarkExecAbsent(b *testing.B) {
	environ := os.Environ()
	for b.Loop() {
		Exec(environ)
	}
}

// BenchmarkProbe is what `qq doctor` pays, and each Apply.
func BenchmarkProbe(b *testing.B) {
	for b.Loop() {
		Probe()
	}
}
