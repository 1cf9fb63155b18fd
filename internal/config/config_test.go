package config

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// place is a home and a working directory of a test.
type place struct {
	t         *testing.T
	home, dir string
}

func newPlace(t *testing.T) place {
	root := t.TempDir()
	p := place{t, filepath.Join(root, "home"), filepath.Join(root, "work")}
	require.NoError(t, os.MkdirAll(filepath.Join(p.home, ".config", "qq"), 0o700))
	require.NoError(t, os.MkdirAll(p.dir, 0o700))
	return p
}

func (p place) write(rel, text string) {
	p.t.Helper()
	require.NoError(p.t, os.WriteFile(filepath.Join(filepath.Dir(p.home), rel), []byte(text), 0o600))
}

func (p place) load(flags map[string]string, env ...string) (Config, error) {
	return Load(Input{Flags: flags, Environ: append([]string{"HOME=" + p.home}, env...), Dir: p.dir})
}

// names are the settings that count only in a trusted file.
func names(c Config) (names []string) {
	for _, claim := range c.Claims {
		names = append(names, claim.Name)
	}
	return names
}

// TestReaches: each setting says what a checkout may do with it, and only numbers can be lowered.
func TestReaches(t *testing.T) {
	for _, s := range Settings() {
		assert.Contains(t, []Reach{Trusted, Lowers, Harmless, Never}, s.Checkout, "%s has no reach", s.Name)
		if s.Checkout == Lowers {
			assert.Contains(t, []Kind{Seconds, Count, Amount}, s.Kind, s.Name)
			assert.Equal(t, strings.Contains(s.Doc, "0 means no limit"), s.NoLimit, s.Name)
		}
	}
}

// TestLimitsOnlyLower: from a checkout a limit counts if it is lower than that of the user. 0 is no limit, where the
// table says so.
func TestLimitsOnlyLower(t *testing.T) {
	for _, tt := range []struct {
		line, own string
		counts    bool
	}{
		{"QQ_CHILD_TIMEOUT=299", "", true},
		{"QQ_CHILD_TIMEOUT=5m", "", true},
		{"QQ_CHILD_TIMEOUT=301", "", false},
		{"QQ_CHILD_TIMEOUT=0", "", false},
		{"QQ_CHILD_TIMEOUT=0", "QQ_CHILD_TIMEOUT=0", true},
		{"QQ_CHILD_TIMEOUT=9999", "QQ_CHILD_TIMEOUT=0", true},
		{"QQ_CHILD_TIMEOUT=100", "QQ_CHILD_TIMEOUT=60", false},
		{"QQ_IDLE_TIMEOUT=20", "QQ_IDLE_TIMEOUT=60", true},
		{"QQ_IDLE_TIMEOUT=0", "QQ_IDLE_TIMEOUT=60", false},
		{"QQ_RETRIES=0", "", true},
		{"QQ_RETRIES=3", "", false},
		{"QQ_MAX_TOKENS=5000", "", true},
		{"QQ_MAX_TOKENS=5000", "QQ_MAX_TOKENS=1000", false},
		{"QQ_MAX_TOKENS=0", "QQ_MAX_TOKENS=1000", false},
		{"QQ_SPAWN_RATE=10", "", true},
		{"QQ_SPAWN_RATE=0", "QQ_SPAWN_RATE=10", false},
		{"QQ_MAX_PARALLEL=1", "", true},
		{"QQ_MAX_PARALLEL=6", "", false},
		{"QQ_MAX_DEPTH=0", "", true},
		{"QQ_MAX_DEPTH=4", "", false},
		{"QQ_MAX_CHILDREN=0", "", true},
		{"QQ_MAX_CHILDREN=201", "", false},
		{"QQ_MAX_OUTPUT=0", "", true},
		{"QQ_MAX_OUTPUT=50001", "", false},
	} {
		p := newPlace(t)
		p.write("work/.env", tt.line)
		p.write(userEnv, tt.own)
		name, value, _ := strings.Cut(tt.line, "=")
		c, err := p.load(nil)
		require.NoError(t, err)
		assert.Equal(t, tt.counts, c.Source(name) == ".env", "%+v", tt)
		assert.Equal(t, tt.counts, c.OnlyLowers(name), "%+v", tt)
		assert.Equal(t, tt.counts, len(c.Claims) == 0, "%+v", tt)
		c, err = c.Trust()
		require.NoError(t, err)
		assert.Equal(t, ".env", c.Source(name), "%+v", tt)
		assert.False(t, c.OnlyLowers(name))
		assert.Equal(t, value, c.Value(name))
	}
	p := newPlace(t)
	p.write("work/.env", "QQ_RETRIES=many\n")
	_, err := p.load(nil)
	require.ErrorContains(t, err, `QQ_RETRIES (.env) is "many": it is no whole number`)
	c, err := p.load(map[string]string{"retries": "1"})
	require.NoError(t, err, "nobody looks at it")
	assert.Equal(t, 1, c.Retries)
}

// TestTrust: what a checkout claims counts once it is trusted, and what is stronger stays stronger. The file is not
// read again.
func TestTrust(t *testing.T) {
	p := newPlace(t)
	p.write(userEnv, "QQ_KEEP_RUNS=90\nQQ_RETRIES=1\n")
	p.write("work/.env", "QQ_KEEP_RUNS=1\nQQ_RETRIES=7\nQQ_HOME=here\nQQ_LOG_DIR=/var/x\nOLLAMA_HOST=other:1\n"+
		"QQ_MAX_DEPTH=2\nQQ_ALLOW=edit_file\nQQ_SEARCH=none\nQQ_RECURSION_DEPTH=7\n")
	c, err := p.load(nil, "OLLAMA_HOST=mine:1")
	require.NoError(t, err)
	assert.Equal(t, []CheckoutSetting{
		{Name: "QQ_RETRIES", Value: "7", Raises: "1"}, {Name: "QQ_KEEP_RUNS", Value: "1"},
		{Name: "OLLAMA_HOST", Value: "other:1", Overridden: true}, {Name: "QQ_ALLOW", Value: "edit_file"},
		{Name: "QQ_HOME", Value: "here"}, {Name: "QQ_LOG_DIR", Value: "/var/x"},
	}, c.Claims)
	assert.Equal(t, []any{90, 1, 2, "mine:1"}, []any{c.KeepRuns, c.Retries, c.MaxDepth, c.OllamaHost})
	assert.Equal(t, filepath.Join(p.home, ".local/state/qq"), c.Home)
	sum := c.DotEnvSum()
	assert.Len(t, sum, 64)

	p.write("work/.env", "QQ_KEEP_RUNS=2\n") // too late
	c, err = c.Trust()
	require.NoError(t, err)
	assert.Equal(t, []any{1, 7, 2, "mine:1"}, []any{c.KeepRuns, c.Retries, c.MaxDepth, c.OllamaHost})
	assert.Equal(t, []string{"edit_file"}, c.Allow)
	assert.Equal(t, []string{filepath.Join(p.dir, "here"), "/var/x"}, []string{c.Home, c.LogDir})
	assert.Equal(t, sum, c.DotEnvSum())
	assert.Len(t, c.Claims, 6, "they stay known")
	assert.Equal(t, []string{"QQ_RECURSION_DEPTH in .env is ignored: only qq itself sets it"}, c.Warnings)
	assert.Zero(t, c.Depth)

	p.write("work/.env", "QQ_KEEP_RUNS=2\n")
	c, err = p.load(nil)
	require.NoError(t, err)
	assert.NotEqual(t, sum, c.DotEnvSum())
}

// TestWithout: a caller can take a line out.
func TestWithout(t *testing.T) {
	p := newPlace(t)
	p.write("work/.env", "QQ_AGENT= theirs\nQQ_MODEL=ollama:x\nQQ_APPROVE=auto\n")
	c, err := p.load(nil)
	require.NoError(t, err)
	assert.Equal(t, []string{"theirs", "ollama:x", ""},
		[]string{c.InDotEnv("QQ_AGENT"), c.InDotEnv("QQ_MODEL"), c.InDotEnv("QQ_HOME")})
	c, err = c.Trust()
	require.NoError(t, err)
	c, err = c.Without("QQ_AGENT")
	require.NoError(t, err)
	assert.Equal(t, []string{"default", "ollama:x", "auto"}, []string{c.Agent, c.Model, c.Approve})
}

// TestOwnDotEnv: in the folder of the user's own settings nobody is a stranger.
func TestOwnDotEnv(t *testing.T) {
	p := newPlace(t)
	p.write(userEnv, "OLLAMA_HOST=mine:1\nQQ_APPROVE=auto\n")
	p.dir = filepath.Join(p.home, ".config", "qq")
	c, err := p.load(nil)
	require.NoError(t, err)
	assert.Empty(t, c.Claims)
	assert.Equal(t, "mine:1", c.OllamaHost)
	assert.Equal(t, "~/.config/qq/.env", c.Source("QQ_APPROVE"))
}

// TestDotEnvLink: a link to a file of the folder is a file of the folder; one that leads out of it cannot be trusted.
func TestDotEnvLink(t *testing.T) {
	p := newPlace(t)
	p.write("work/settings", "OLLAMA_HOST=other:1\nQQ_MAX_DEPTH=2\n")
	require.NoError(t, os.Symlink("settings", filepath.Join(p.dir, ".env")))
	c, err := p.load(nil)
	require.NoError(t, err)
	assert.NotEmpty(t, c.DotEnvSum())
	require.NoError(t, os.Rename(filepath.Join(p.dir, "settings"), filepath.Join(p.home, "settings")))
	require.NoError(t, os.Remove(filepath.Join(p.dir, ".env")))
	require.NoError(t, os.Symlink("../home/settings", filepath.Join(p.dir, ".env")))
	c, err = p.load(nil)
	require.NoError(t, err)
	assert.Equal(t, []string{"OLLAMA_HOST"}, names(c))
	assert.Empty(t, c.DotEnvSum())
	assert.Equal(t, 2, c.MaxDepth)
}

const userEnv = "home/.config/qq/.env"

func TestDefaults(t *testing.T) {
	p := newPlace(t)
	c, err := p.load(nil)
	require.NoError(t, err)
	assert.Empty(t, c.Warnings)
	state := filepath.Join(p.home, ".local/state/qq")
	assert.Equal(t, filepath.Join(state, "logs"), c.Value("QQ_LOG_DIR"))
	assert.Empty(t, c.Environ())
	for _, s := range Settings() {
		assert.Equal(t, "default", c.Source(s.Name), s.Name)
	}
	c.from, c.loader = nil, nil
	assert.Equal(t, Config{IdleTimeout: 300 * time.Second, Retries: 2, KeepRuns: 30, ChildTimeout: 300 * time.Second,
		FaultWait: time.Minute, ApprovalTimeout: 300 * time.Second, Isolate: "off",
		MaxParallel: 5, MaxDepth: 3, MaxChildren: 200, MaxOutput: 50000,
		CommandMemory: 8192, CommandProcesses: 2048, CommandFileSize: 10240,
		Model: "auto", OllamaHost: "127.0.0.1:11434", Agent: "default", AgentsMD: "on", Markdown: "on", Approve: "ask",
		OnQuota: "auto", Plan: "auto", Home: state,
		LogDir: filepath.Join(state, "logs")}, c)
}

func TestPrecedence(t *testing.T) {
	p := newPlace(t)
	flags, env := map[string]string{"agent": "a-flag"}, []string{"QQ_AGENT=an-env"}
	p.write("work/.env", "QQ_AGENT=a-dir\n")
	p.write(userEnv, "QQ_AGENT=a-user\nQQ_MAX_PARALLEL=7\n")
	steps := []struct {
		agent, source string
		weaken        func()
	}{
		{"a-flag", "flag --agent", func() { flags = nil }},
		{"an-env", "environment", func() { env = []string{"QQ_AGENT="} }},
		{"a-dir", ".env", func() { p.write("work/.env", "") }},
		{"a-user", "~/.config/qq/.env", func() { p.write(userEnv, "") }},
		{"default", "default", func() {}},
	}
	for i, step := range steps {
		c, err := p.load(flags, env...)
		require.NoError(t, err)
		assert.Equal(t, step.agent, c.Agent)
		assert.Equal(t, step.source, c.Source("QQ_AGENT"))
		if i < 4 {
			assert.Equal(t, 7, c.MaxParallel)
			assert.Contains(t, c.Environ(), "QQ_MAX_PARALLEL=7")
		}
		step.weaken()
	}
}

func TestValues(t *testing.T) {
	p := newPlace(t)
	tests := []struct {
		entry string
		want  func(Config) any
		value any
	}{
		{"QQ_CHILD_TIMEOUT=0", func(c Config) any { return c.ChildTimeout }, time.Duration(0)},
		{"QQ_CHILD_TIMEOUT=0.5", func(c Config) any { return c.ChildTimeout }, 500 * time.Millisecond},
		{"QQ_CHILD_TIMEOUT= 5m ", func(c Config) any { return c.ChildTimeout }, 5 * time.Minute},
		{"QQ_MAX_CHILDREN=0", func(c Config) any { return c.MaxChildren }, 0},
		{"QQ_MAX_OUTPUT=0", func(c Config) any { return c.MaxOutput }, 0},
		{"QQ_MAX_DEPTH=0", func(c Config) any { return c.MaxDepth }, 0},
		{"QQ_RECURSION_DEPTH=2", func(c Config) any { return c.Depth }, 2},
		{"QQ_MODEL=ollama:qwen3:8b", func(c Config) any { return c.Model }, "ollama:qwen3:8b"},
		{"OLLAMA_HOST='https://models.example/api'", func(c Config) any { return c.OllamaHost },
			"https://models.example/api"},
		{"OLLAMA_HOST=[::1]:99", func(c Config) any { return c.OllamaHost }, "[::1]:99"},
		{"QQ_APPROVE=auto", func(c Config) any { return c.Approve }, "auto"},
		{"QQ_ALLOW=edit_file, run_pty_cmd,", func(c Config) any { return c.Allow },
			[]string{"edit_file", "run_pty_cmd"}},
		{"QQ_ALLOW=run_pty_cmd(echo 'a, (b' c, d), edit_file(src/{a,b}), x", func(c Config) any { return c.Allow },
			[]string{"run_pty_cmd(echo 'a, (b' c, d)", "edit_file(src/{a,b})", "x"}},
		{"QQ_DENY=none", func(c Config) any { return c.Deny }, []string(nil)},
		{"QQ_SEARCH=none", func(c Config) any { return c.Search }, ""},
		{"QQ_SEARCH=searxng=http://localhost:8080", func(c Config) any { return c.Search },
			"searxng=http://localhost:8080"},
		{"QQ_WRITABLE=~/.cache:/var/x", func(c Config) any { return c.Writable },
			[]string{filepath.Join(p.home, ".cache"), "/var/x"}},
		{"QQ_WRITABLE=.git:/var/x", func(c Config) any { return c.Writable },
			[]string{filepath.Join(p.dir, ".git"), "/var/x"}},
		{"QQ_COMMAND_MEMORY=0", func(c Config) any { return c.CommandMemory }, 0},
		{"QQ_HOME=~/x", func(c Config) any { return c.LogDir }, filepath.Join(p.home, "x", "logs")},
		{"QQ_HOME=x", func(c Config) any { return c.Home }, filepath.Join(p.dir, "x")},
		{"XDG_STATE_HOME=/state", func(c Config) any { return c.Home }, "/state/qq"},
		{"XDG_STATE_HOME=relative", func(c Config) any { return c.Home }, filepath.Join(p.home, ".local/state/qq")},
	}
	for _, tt := range tests {
		t.Run(tt.entry, func(t *testing.T) {
			c, err := p.load(nil, tt.entry)
			require.NoError(t, err)
			assert.Equal(t, tt.value, tt.want(c))
		})
	}
}

func TestBadValues(t *testing.T) {
	tests := []struct{ entry, problem string }{
		{"QQ_CHILD_TIMEOUT=soon", `QQ_CHILD_TIMEOUT (environment) is "soon": it is no number of seconds`},
		{"QQ_CHILD_TIMEOUT=-1", `QQ_CHILD_TIMEOUT (environment) is "-1": it is out of range`},
		{"QQ_CHILD_TIMEOUT=99999999999", "no number of seconds"},
		{"QQ_CHILD_TIMEOUT=1e3", "no number of seconds"},
		{"QQ_CHILD_TIMEOUT=1.2.3", "no number of seconds"},
		{"QQ_MAX_PARALLEL=0", `QQ_MAX_PARALLEL (environment) is "0": it is out of range`},
		{"QQ_MAX_PARALLEL=1.5", "no whole number"},
		{"QQ_MAX_CHILDREN=-1", "out of range"},
		{"QQ_MAX_OUTPUT=9999999999", "out of range"},
		{"QQ_MODEL=qwen3", `(a model of Ollama is written "ollama:qwen3")`},
		{"QQ_MODEL=ollama:", "names no model"},
		{"QQ_AGENT=two words", "contains a space"},
		{"QQ_AGENT=a\x1bb", "control character"},
		{"QQ_AGENT=\xff", "not UTF-8"},
		{"OLLAMA_HOST=localhost:99999", `"99999" is no port`},
		{"OLLAMA_HOST=ftp://localhost", `"ftp" is no scheme`},
		{"OLLAMA_HOST=http://me:PW@h", `OLLAMA_HOST (environment) is "http://…@h": it carries a user name or a password`},
		{"OLLAMA_HOST=me:PW@h o", `OLLAMA_HOST (environment) is "…@h o": it contains a space`},
		{"OLLAMA_HOST=me:PW://x@h", `OLLAMA_HOST (environment) is "…@h": it carries a user name or a password`},
		{"QQ_APPROVE=yes", `QQ_APPROVE (environment) is "yes": it is not accepted`},
		{"QQ_ALLOW=run it", `"run it" contains a space`},
		{"QQ_WRITABLE=cache", `"cache" is no absolute path`},
		{"QQ_WRITABLE=../x", `"../x" is no absolute path`},
		{"QQ_COMMAND_PROCESSES=many", "it is no whole number"},
		{"QQ_HOME=   ", "it is empty"},
		{"QQ_AGENT=" + strings.Repeat("x ", 500), `xx..."`[2:]},
	}
	p := newPlace(t)
	for _, tt := range tests {
		t.Run(tt.entry, func(t *testing.T) {
			_, err := p.load(nil, tt.entry)
			var bad *Error
			require.ErrorAs(t, err, &bad)
			assert.Contains(t, bad.Problem, tt.problem)
			assert.Contains(t, bad.Hint, "accepted is ")
			assert.Equal(t, 1, strings.Count(err.Error(), "\n"), "problem and hint are two lines")
			assert.Less(t, len(err.Error()), 300)
		})
	}
}

func TestBadValueNamesItsSource(t *testing.T) {
	p := newPlace(t)
	_, err := p.load(map[string]string{"jobs": ""})
	require.EqualError(t, err, "QQ_MAX_PARALLEL (flag --jobs) is \"\": it is empty\n"+
		"hint: accepted is a whole number from 1 to 1000000000")
	p.write(userEnv, "QQ_MAX_PARALLEL=x")
	_, err = p.load(nil)
	require.ErrorContains(t, err, `QQ_MAX_PARALLEL (~/.config/qq/.env) is "x"`)
	c, err := p.load(map[string]string{"jobs": "2"})
	require.NoError(t, err, "a value that is overridden is not looked at")
	assert.Equal(t, 2, c.MaxParallel)
}

func TestNoHome(t *testing.T) {
	_, err := Load(Input{Dir: t.TempDir()})
	require.ErrorContains(t, err, "QQ_HOME has no default")
	c, err := Load(Input{Dir: t.TempDir(), Environ: []string{"QQ_HOME=/somewhere"}})
	require.NoError(t, err)
	assert.Equal(t, "/somewhere/logs", c.LogDir)
}

func TestUnknownNames(t *testing.T) {
	p := newPlace(t)
	p.write("work/.env", "QQ_NO_SUCH=auto\nDATABASE_URL=x\n")
	c, err := p.load(nil, "QQ_MAX_PARALEL=3", "QQX=1", "QQ_SOMETHING_ELSE=1")
	require.NoError(t, err)
	assert.Equal(t, []string{
		`"QQ_MAX_PARALEL" (environment) is no setting: did you mean QQ_MAX_PARALLEL?`,
		`"QQ_SOMETHING_ELSE" (environment) is no setting: ` + "`qq config` lists them",
		`"QQ_NO_SUCH" (.env) is no setting: ` + "`qq config` lists them",
	}, c.Warnings)
}

func TestChildIsNotWarnedOfItsEnvironment(t *testing.T) {
	c, err := newPlace(t).load(nil, "QQ_RECURSION_DEPTH=1", "QQ_SOMETHING_ELSE=1")
	require.NoError(t, err)
	assert.Empty(t, c.Warnings)
	assert.Equal(t, 1, c.Depth)
}

// A checkout may not decide where files and prompts go, what may be done, nor how deep the tree of tasks is.
func TestCheckoutIsNotTrusted(t *testing.T) {
	p := newPlace(t)
	outside := t.TempDir()
	require.NoError(t, os.Symlink(outside, filepath.Join(p.dir, "link")))
	require.NoError(t, os.Symlink(filepath.Join(outside, "gone"), filepath.Join(p.dir, "dangling")))
	for line, counts := range map[string]bool{
		"QQ_HOME=here":                   false,
		"QQ_APPROVE=auto":                false,
		"QQ_APPROVE=ask":                 true, // as without it
		"QQ_HOME='$XDG_STATE_HOME/qq'":   false,
		"QQ_LOG_DIR=' ~/.config/x'":      false,
		"QQ_LOG_DIR=' /etc'":             false,
		"QQ_LOG_DIR=' logs'":             true,
		"QQ_ALLOW=run_pty_cmd":           false,
		"QQ_WRITABLE=/etc":               false,
		"QQ_SEARCH=searxng=http://evil":  false,
		"QQ_WEB_ALLOW=localhost":         false,
		"QQ_KEEP_RUNS=1":                 false,
		"QQ_DENY=run_pty_cmd":            true,
		"QQ_LOG_DIR=/etc":                false,
		"QQ_LOG_DIR=../x":                false,
		"QQ_LOG_DIR=~/x":                 false,
		"QQ_LOG_DIR=link/x/y":            false,
		"QQ_LOG_DIR=dangling":            false,
		"QQ_LOG_DIR=logs/deep":           true,
		"OLLAMA_HOST=evil.example:80":    false,
		"OLLAMA_HOST=localhost:80":       false, // of another user of this machine
		"OLLAMA_HOST=http://127.0.0.2":   false,
		"OLLAMA_HOST=127.0.0.1:11434":    true,
		"QQ_AGENT=coder":                 true,
		"QQ_MODEL=ollama:qwen3:4b":       true,
		"HTTP_PROXY=http://evil.example": true, // which is no setting: not read at all
	} {
		t.Run(line, func(t *testing.T) {
			p.write("work/.env", line)
			c, err := p.load(nil)
			require.NoError(t, err)
			assert.Empty(t, c.Warnings)
			name, value, _ := strings.Cut(line, "=")
			value = strings.Trim(value, "'")
			if counts {
				assert.Empty(t, c.Claims)
				return
			}
			assert.Equal(t, []CheckoutSetting{{Name: name, Value: value}}, c.Claims)
			assert.Equal(t, "default", c.Source(name))
		})
	}
	p.write("work/.env", "")
	p.write(userEnv, "QQ_HOME=mine")
	c, err := p.load(nil)
	require.NoError(t, err)
	assert.Equal(t, filepath.Join(p.home, ".config/qq/mine"), c.Home, "relative to the file that names it")
}

// TestCheckoutSaysTheSame: a checkout that is not trusted decides nothing by saying what counts already, not even in
// which folder a relative path starts.
func TestCheckoutSaysTheSame(t *testing.T) {
	values := map[string]string{"QQ_KEEP_RUNS": "7", "OLLAMA_HOST": "mine:1", "QQ_APPROVE": "deny",
		"QQ_ALLOW": "edit_file", "QQ_WRITABLE": "~/w", "QQ_SEARCH": "brave", "QQ_WEB_ALLOW": "wiki", "QQ_HOME": "state",
		"QQ_FALLBACK": "extract", "QQ_PRICES": "openai:*=1/2",
		"QQ_ON_QUOTA": "wait", "QQ_PLAN": "strict", "QQ_ISOLATE": "auto"}
	for _, s := range Settings() {
		if s.Checkout != Trusted || s.Family { // of these the members count, see TestFamilies
			continue
		}
		require.Contains(t, values, s.Name)
		for _, own := range []string{"", values[s.Name]} {
			for _, space := range []string{"", " "} {
				p := newPlace(t)
				if own != "" {
					p.write(userEnv, s.Name+"="+own+"\n")
				}
				want, err := p.load(nil)
				require.NoError(t, err)
				p.write("work/.env", s.Name+"='"+space+cmp.Or(own, s.Default)+space+"'\n")
				c, err := p.load(nil)
				require.NoError(t, err)
				assert.Equal(t, want.from, c.from, "%s %q", s.Name, own)
				assert.Equal(t, want.Home, c.Home)
				assert.Equal(t, s.Kind == Path, len(c.Claims) == 1, "%s %q: another folder is a claim", s.Name, own)
			}
		}
	}
}

// What the user denies stays denied in every checkout.
func TestCheckoutOnlyAddsToDeny(t *testing.T) {
	for _, tt := range []struct {
		own, checkout, source string
		want                  []string
	}{
		{"run_pty_cmd", "web_fetch", ".env", []string{"web_fetch", "run_pty_cmd"}},
		{"run_pty_cmd", "none", "~/" + userEnv[len("home/"):], []string{"run_pty_cmd"}},
		{"none", "web_fetch", ".env", []string{"web_fetch"}},
		{"", "none", ".env", nil},
	} {
		p := newPlace(t)
		p.write("work/.env", "QQ_DENY="+tt.checkout)
		p.write(userEnv, "QQ_DENY="+tt.own)
		c, err := p.load(nil)
		require.NoError(t, err)
		assert.Equal(t, tt.want, c.Deny, "%+v", tt)
		assert.Equal(t, tt.source, c.Source("QQ_DENY"), "%+v", tt)
	}
	p := newPlace(t) // a quote would end in the list of the user
	p.write("work/.env", "QQ_DENY=\"run_pty_cmd(x '\"")
	p.write(userEnv, "QQ_DENY=\"run_pty_cmd(rm*),edit_file(it's)\"")
	_, err := p.load(nil)
	require.ErrorContains(t, err, "a parenthesis or a quote is not closed")
}

func TestDotEnvFile(t *testing.T) {
	p := newPlace(t)
	tests := []struct{ name, text, agent, problem string }{
		{"plain", "# c\n\nexport QQ_AGENT=coder # the one\n", "coder", ""},
		{"mark and carriage returns", "\xef\xbb\xbfQQ_AGENT='coder'\r\nX=1\r\n", "coder", ""},
		{"refers to a line above", "WHO=coder\nQQ_AGENT=${WHO}\n", "coder", ""},
		{"does not refer to the environment", "QQ_AGENT=x${SECRET}\n", "x", ""},
		{"several lines", "KEY=\"a\nb\nc\"\nQQ_AGENT=coder", "coder", ""},
		{"no equals sign", "QQ_AGENT=x\n\nQQ_ secret\nA=b\n", "", "read .env line 3: a line that is not NAME=value"},
		{"no equals sign at the end", "A=b\nQQ_MODEL", "", "read .env line 2: "},
		{"strange name", "A=b\nmy-qq_secret=x\n", "", "read .env line 2: "},
		{"a setting without QQ_", "export-OLLAMA_HOST=secret\n", "", "read .env line 1: "},
		{"words behind a setting", "QQ_AGENT=\"x\" secret words\n", "", "read .env line 1: "},
		{"a quote that may go on", "A-B=\"secret\nQQ_AGENT=coder\nC=\"\n", "", "read .env line 1: "},
		{"one that may go on, too", "A-B='secret\nQQ_AGENT=coder\n'\n", "", "read .env line 1: "},
		{"far too many", strings.Repeat("secret words\n", 21), "", "read .env line 21: "},
		{"no name", "A=b\n=secret\n", "", "a line has no name"},
		{"open quote", "A=b\nC=\"secret\nD=e\n", "", "read .env line 2: a quote that is not closed"},
		{"too large", strings.Repeat("#\n", 1<<19) + "#", "", "larger than 1 MiB"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p.write("work/.env", tt.text)
			c, err := p.load(nil, "SECRET=1")
			if tt.problem == "" {
				require.NoError(t, err)
				assert.Equal(t, tt.agent, c.Agent)
				return
			}
			require.ErrorContains(t, err, tt.problem)
			assert.NotContains(t, err.Error(), "secret")
			assert.Equal(t, 1, strings.Count(err.Error(), "\n"))
		})
	}
}

// Lines of other programs block nothing. Each is named, and the others count.
func TestForeignLines(t *testing.T) {
	p := newPlace(t)
	p.write("work/.env", "A-B=secret\nQQ_AGENT=coder\n. ./other.env\nit's secret\nX=\"a\nb\"\n"+
		"A-B: \"secret\" # x\nQQ_RETRIES=1\nset -a\nfoo: bar\nLONG=\"x\nnone: of it\"\n")
	c, err := p.load(nil)
	require.NoError(t, err)
	assert.Equal(t, "coder", c.Agent)
	assert.Equal(t, 1, c.Retries)
	var want []string
	for _, line := range []int{1, 3, 4, 7, 9, 10} {
		want = append(want, fmt.Sprintf(".env line %d is left out: it is not NAME=value", line))
	}
	assert.Equal(t, want, c.Warnings)
}

// Names that qq itself sets are known, and a file with very many unknown ones does not flood a terminal.
func TestManyUnknownNames(t *testing.T) {
	p := newPlace(t)
	var names strings.Builder
	for i := range 100 {
		fmt.Fprintf(&names, "QQ_X%03d=1\n", i)
	}
	p.write("work/.env", names.String())
	c, err := p.load(nil, "QQ_CONTROL=", "QQ_EXECUTION_ID_1=x", "QQ_COMMAND_ID_2=x", "QQ_KEEPER=", "QQ_SANDBOX=1",
		"QQ_CONTROLS=x")
	require.NoError(t, err)
	require.Len(t, c.Warnings, 12)
	assert.Contains(t, c.Warnings[0], `"QQ_CONTROLS" (environment) is no setting`)
	assert.Equal(t, "90 more names of .env that begin with QQ_ are no settings", c.Warnings[11])
}

func TestDotEnvThatIsNoFile(t *testing.T) {
	p := newPlace(t)
	path := filepath.Join(p.dir, ".env")
	require.NoError(t, os.Mkdir(path, 0o700))
	c, err := p.load(nil)
	require.NoError(t, err, "a Python environment is often called .env")
	assert.Empty(t, c.Warnings)

	require.NoError(t, os.Remove(path))
	require.NoError(t, syscall.Mkfifo(path, 0o600))
	_, err = p.load(nil)
	require.ErrorContains(t, err, "read .env: it is not a regular file", "and a pipe without a writer does not hang")

	require.NoError(t, os.Remove(path))
	require.NoError(t, os.Symlink(".env", path))
	c, err = p.load(nil)
	require.NoError(t, err)
	require.Len(t, c.Warnings, 1)
	assert.Contains(t, c.Warnings[0], ".env is ignored: ")
}

// example is the file that people copy.
func example(t testing.TB) string {
	data, err := os.ReadFile(filepath.Join("..", "..", ".env.example"))
	require.NoError(t, err)
	return string(data)
}

func TestExample(t *testing.T) {
	p := newPlace(t)
	p.write("work/.env", example(t))
	c, err := p.load(nil)
	require.NoError(t, err)
	assert.Empty(t, c.Warnings, "the example can be used as it is")
	assert.Equal(t, filepath.Join(p.dir, "logs"), c.LogDir)
	assert.Len(t, c.Environ(), 1)
}

func TestChildEnv(t *testing.T) {
	kept := []string{"PATH=/bin", "HOME=/home/x", "PWD=/w", "LANG=C", "MONKEY=1", "TOKENIZERS_PARALLELISM=false",
		"KEYBOARD=us",
		"XDG_SESSION_ID=4", "AUTHOR=me", "OLLAMA_HOST=h:1", "HTTP_PROXY=http://u:p@proxy:3128",
		"HOMEPAGE=https://example.org/a:b@c", "SHORT=sk-x", "NOTE=sk-learn is a library for Python", "EMPTY=",
		"COMPASS=n",
		"MYPATHS=/a"}
	dropped := []string{"OPENAI_API_KEY=x", "AWS_SECRET_ACCESS_KEY=x", "AWS_ACCESS_KEY_ID=x", "github_token=x",
		"PGPASSWORD=x",
		"MYSQL_PWD=x", "DB_PASS=x", "GOOGLE_APPLICATION_CREDENTIALS=/f", "SSH_AUTH_SOCK=/s", "APIKEY=x", "API_KEYS=x",
		"NPM_AUTHTOKEN=x",
		"QQ_HOME=/x", "QQ_ANYTHING=1", "TRACEPARENT=00-1-2-01", "OTEL_EXPORTER_OTLP_HEADERS=authorization=x",
		"WHATEVER=ghp_0123456789abcdefghij", "DATABASE_URL=postgres://u:p@db/x",
		"PEM=-----BEGIN OPENSSH PRIVATE KEY-----\nx", "no equals sign"}
	assert.Equal(t, kept, ChildEnv(append(kept, dropped...)))
	for _, entry := range dropped {
		assert.Empty(t, ChildEnv([]string{entry}), entry)
	}
}

// FuzzDotEnv: whatever stands in a .env, Load ends with a configuration within
// bounds or with an error of two lines.
func FuzzDotEnv(f *testing.F) {
	for _, s := range []string{"QQ_AGENT=coder\n", "QQ_AGENT=\"a\nb\"", "A=${B}$(C)\\$D\n", "x\n", "A='\n", "=\n",
		"QQ_LOG_DIR=../..\n",
		"\xef\xbb\xbf#\nQQ_HOME=/\n", "export QQ_MAX_PARALLEL: 3", example(f)} {
		f.Add([]byte(s))
	}
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, data []byte) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, ".env"), data, 0o600))
		c, err := Load(Input{Environ: []string{"HOME=/nowhere"}, Dir: dir})
		if err == nil {
			_, err = c.Trust()
		}
		if err != nil {
			var bad *Error
			require.ErrorAs(t, err, &bad)
			assert.Equal(t, 1, strings.Count(err.Error(), "\n"), err.Error())
			return
		}
		assert.Equal(t, "/nowhere/.local/state/qq", c.Home)
		assert.Zero(t, c.Depth)
		assert.GreaterOrEqual(t, c.MaxParallel, 1)
		assert.GreaterOrEqual(t, c.ChildTimeout, time.Duration(0))
		if c.LogDir != "/nowhere/.local/state/qq/logs" {
			rel, err := filepath.Rel(dir, c.LogDir)
			require.NoError(t, err)
			assert.True(t, filepath.IsLocal(rel), c.LogDir)
		}
	})
}

func BenchmarkLoad(b *testing.B) {
	in := Input{Environ: []string{"HOME=" + b.TempDir(), "PATH=/bin"}, Dir: b.TempDir()}
	for b.Loop() {
		if _, err := Load(in); err != nil {
			b.Fatal(err)
		}
	}
}

// With Anyway, each mistake is kept, what is wrong counts as not given, and all else counts.
func TestAnyway(t *testing.T) {
	p := newPlace(t)
	p.write("work/.env", "QQ_RETRIES=many\nQQ_MAX_PARALLEL=2\n")
	p.write(userEnv, "QQ_MAX_DEPTH=2\nQQ_AGENT=coder\nOLLAMA_HOST=not a host::\n")
	in := Input{Dir: p.dir, Environ: []string{"HOME=" + p.home, "QQ_MAX_DEPTH=deep", "QQ_MODEL=llama"}, Anyway: true}
	c, err := Load(in)
	require.NoError(t, err)
	var problems []string
	for _, m := range c.Mistakes {
		problem, _, _ := strings.Cut(m.Error(), "\n")
		problems = append(problems, problem)
	}
	assert.Equal(t, []string{
		`QQ_RETRIES (.env) is "many": it is no whole number`,
		`QQ_MAX_DEPTH (environment) is "deep": it is no whole number`,
		`QQ_MODEL (environment) is "llama": it is no model that qq knows (a model of Ollama is written "ollama:llama")`,
		`OLLAMA_HOST (~/.config/qq/.env) is "not a host::": it contains a space`,
	}, problems)
	assert.Equal(t, []any{2, 2, 2, "coder", "auto", "127.0.0.1:11434"},
		[]any{c.Retries, c.MaxParallel, c.MaxDepth, c.Agent, c.Model, c.OllamaHost})
	_, err = Load(Input{Dir: p.dir, Environ: in.Environ})
	require.Error(t, err)

	c, err = Load(Input{Dir: t.TempDir(), Anyway: true})
	require.NoError(t, err)
	require.Len(t, c.Mistakes, 1)
	assert.ErrorContains(t, c.Mistakes[0], "QQ_HOME has no default")
	assert.Empty(t, c.Home+c.LogDir)

	p.write(userEnv, "QQ_ broken\n")
	c, err = Load(Input{Dir: p.dir, Environ: in.Environ[:1], Anyway: true, NoCheckout: true})
	require.NoError(t, err)
	require.Len(t, c.Mistakes, 1)
	assert.ErrorContains(t, c.Mistakes[0], "read ~/.config/qq/.env line 1: a line that is not NAME=value")
}
