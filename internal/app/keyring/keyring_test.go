package keyring

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qq/internal/config"
	"qq/internal/models/servers"
	"qq/pkg/llm"
	"qq/pkg/proc"
	"qq/pkg/task"
)

// ring returns a ring of a user with that environment, whose own .env says LAB_KEY=from-the-file.
func ring(t *testing.T, env ...string) *Ring {
	t.Helper()
	home := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(home, ".config", "qq"), 0o700))
	own := filepath.Join(home, ".config", "qq", ".env")
	require.NoError(t, os.WriteFile(own, []byte("LAB_KEY=from-the-file\n"), 0o600))
	env = append([]string{"HOME=" + home, "PATH=" + os.Getenv("PATH")}, env...)
	cfg, err := config.Load(config.Input{Environ: env, Dir: t.TempDir()})
	require.NoError(t, err)
	return &Ring{Environ: env, Settings: cfg, Host: host()}
}

// host is the only one of this process: it sweeps what belongs to no process of its own.
var host = sync.OnceValue(proc.NewHost)

func asks(command string) servers.Server { return servers.Server{Name: "lab", KeyCommand: command} }

func TestKey(t *testing.T) {
	lab := servers.Server{Name: "lab", KeyName: "LAB_KEY"}
	for _, c := range []struct {
		name   string
		env    string
		server servers.Server
		want   string
		wrong  string
		hint   string
	}{
		{"none", "A=b", servers.Server{Name: "vllm"}, "", "", ""},
		{"file", "A=b", lab, "from-the-file", "", ""},
		{"environment", "LAB_KEY= shell ", lab, "shell", "", ""},
		{"not set", "A=b", servers.Server{Name: "openai", KeyName: "OPENAI_API_KEY"}, "",
			"openai needs a key, and OPENAI_API_KEY is not set", "that of a project does not count"},
		{"two words", "LAB_KEY=one two", lab, "", "the key in LAB_KEY is too long, or has characters", "spaces"},
		{"no ASCII", "LAB_KEY=sk–dash", lab, "", "the key in LAB_KEY is too long, or has", ""},
		{"command", "SECRET=s3cret", asks("echo $SECRET"), "s3cret", "", ""},
		{"two lines", "A=b", asks("printf '\\n  first \\nlogin: me\\n'"), "first", "", ""},
		{"much more", "A=b", asks("echo first; head -c 300000 /dev/zero"), "first", "", ""},
		{"too long", "A=b", asks("head -c 300000 /dev/zero | tr '\\0' x"), "", "QQ_SERVER_lab is too long", ""},
		{"exit", "A=b", asks("echo key; exit 3"), "", "key_cmd of QQ_SERVER_lab: it exited with 3", "run the command"},
		{"signal", "A=b", asks("kill -9 $$"), "", "it was ended by killed", ""},
		{"missing", "A=b", asks("no-such-program"), "", "it exited with 127", ""},
		{"nothing", "A=b", asks("true"), "", "it prints nothing", "the first line that it prints must be the key"},
		{"blank", "A=b", asks("echo '  '"), "", "it prints nothing", ""},
		{"binary", "A=b", asks(`printf 'a\001b'`), "", "characters that no key has", ""},
		{"options behind", "A=b", asks("echo key vision"), "", "characters that no key has",
			"key_cmd takes the rest of the line: other options stand before it"},
		{"stdin", "A=b", asks("cat; echo key"), "key", "", ""},
		{"background", "A=b", asks("sleep 100 & echo key"), "key", "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			begin := time.Now()
			key, err := ring(t, c.env).Key(t.Context(), c.server)
			assert.Equal(t, c.want, key)
			if c.wrong == "" {
				require.NoError(t, err)
			} else {
				var e *llm.Error
				require.ErrorAs(t, err, &e)
				assert.Equal(t, llm.Misconfigured, e.Kind)
				assert.Equal(t, task.Misused, e.TaskStatus())
				assert.Contains(t, e.Problem, c.wrong)
				assert.Contains(t, e.Hint, c.hint)
			}
			assert.Less(t, time.Since(begin), 10*time.Second)
		})
	}
}

// TestAskedOnce: a key command runs once in a run, however many tasks need the key, and also if it fails.
func TestAskedOnce(t *testing.T) {
	for _, exit := range []string{"0", "1"} {
		r := ring(t)
		count := filepath.Join(t.TempDir(), "count")
		var tasks sync.WaitGroup
		for range 8 {
			tasks.Go(func() {
				key, err := r.Key(t.Context(), asks("echo x >> "+count+"; echo key; exit "+exit))
				assert.Equal(t, exit == "0", key == "key" && err == nil)
			})
		}
		tasks.Wait()
		asked, err := os.ReadFile(count)
		require.NoError(t, err)
		assert.Equal(t, "x\n", string(asked))
	}
}

// TestHangs: a key command that does not end is ended, with what it started.
func TestHangs(t *testing.T) {
	for _, command := range []string{"sleep 1000", "sleep 1000 & sleep 1000", "trap '' TERM; sleep 1000", "yes"} {
		r := ring(t)
		r.Limit = 300 * time.Millisecond
		begin := time.Now()
		_, err := r.Key(t.Context(), asks(command))
		require.ErrorContains(t, err, "key_cmd of QQ_SERVER_lab: it has not ended within 300ms", command)
		_, err = r.Key(t.Context(), asks(command))
		require.Error(t, err)
		assert.Less(t, time.Since(begin), 8*time.Second, command)
	}
}

// TestCommandOfAgent: a qq that the command of an agent starts runs no key command, and reads no key from a file.
func TestCommandOfAgent(t *testing.T) {
	r := ring(t, "QQ_RECURSION_DEPTH=1")
	mark := filepath.Join(t.TempDir(), "ran")
	_, err := r.Key(t.Context(), asks("touch "+mark+"; echo key"))
	assert.ErrorContains(t, err, "lab needs a key, and the command of an agent gets none")
	assert.NoFileExists(t, mark)
	_, err = r.Key(t.Context(), servers.Server{Name: "lab", KeyName: "LAB_KEY"})
	assert.ErrorContains(t, err, "lab needs a key, and LAB_KEY is not set")
	assert.True(t, strings.HasSuffix(err.Error(), toAgents))
}
