package sandbox

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// ground is a folder with two writable ones and one that is not.
func ground(t *testing.T) (rules Rules, outside string, entries []string) {
	t.Helper()
	dir := t.TempDir()
	in, tmp, out := filepath.Join(dir, "in"), filepath.Join(dir, "tmp"), filepath.Join(dir, "out")
	for _, d := range []string{in, tmp, out} {
		require.NoError(t, os.MkdirAll(filepath.Join(d, "sub"), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(d, "canary"), []byte("alive\n"), 0o644))
	}
	require.NoError(t, os.Symlink(filepath.Join(out, "canary"), filepath.Join(in, "way")))
	return Rules{Write: []string{in, tmp}}, out, []string{"IN=" + in, "TMP=" + tmp, "OUT=" + out, "TMPDIR=" + tmp}
}

func TestWritingInside(t *testing.T) {
	needs(t, abiRefer)
	for name, text := range map[string]string{
		"files":     `echo x > "$IN/new" && echo x >> "$IN/canary" && : > "$IN/canary" && rm "$IN/new"`,
		"temporary": `f=$(mktemp) && echo x > "$f" && d=$(mktemp -d) && rmdir "$d"`,
		"folders":   `mkdir -p "$IN/a/b" && mv "$IN/a/b" "$IN/b" && rm -r "$IN/a" "$IN/b"`,
		"between": `mv "$IN/canary" "$TMP/sub/moved" && mv "$TMP/sub" "$IN/taken" && grep -q alive ` +
			`"$IN/taken/moved"`,
		"links":      `ln "$IN/canary" "$IN/sub/hard" && ln -s canary "$IN/soft" && ln "$IN/canary" "$TMP/hard"`,
		"attributes": `chmod 600 "$IN/canary" && touch -d 2001-01-01 "$IN/canary" && cp -p "$IN/canary" "$TMP/copy"`,
		"pipes":      `mkfifo "$IN/pipe" && (echo x > "$IN/pipe" &) && read -r x < "$IN/pipe"`,
		"sockets":    `SANDBOX_TEST_ROLE=listen "$SELF" "$IN/socket" && SANDBOX_TEST_ROLE=listen "$SELF" "$TMP/socket"`,
		"tar":        `tar -C "$IN" -cf "$TMP/t.tar" . && mkdir "$IN/un" && tar -C "$IN/un" -xpf "$TMP/t.tar"`,
		"git": `cd "$IN" && git init -q . && git add canary && git -c user.name=a -c user.email=b@c commit ` +
			`-qm first && git gc -q`,
		"owner":       `[ "$(id -u)" != 0 ] || chown 12345 "$IN/canary"`,
		"read around": `grep -q alive "$OUT/canary" && ls / > /dev/null`,
		"null":        `echo x > /dev/null`,
	} {
		played.Store("listen", true)
		for _, h := range []how{free, applied, wrapped} {
			t.Run(name+"/"+string(h), func(t *testing.T) {
				r, _, entries := ground(t)
				out, err := script(h, r, text, entries...).CombinedOutput()
				if h == free && err != nil {
					held(t, out)
				}
				require.NoError(t, err, "%s", out)
			})
		}
	}
}

func TestWritingOutside(t *testing.T) {
	needs(t, abiTruncate)
	for name, text := range map[string]string{
		"next to it":          `echo x > "$OUT/new"`,
		"over":                `echo x > "$OUT/canary"`,
		"empty":               `truncate -s 0 "$OUT/canary"`,
		"dots":                `cd "$IN" && echo x > ../out/canary`,
		"dots through a link": `ln -s .. "$IN/up" && echo x > "$IN/up/out/canary"`,
		"link that was there": `echo x > "$IN/way"`,
		"link":                `ln -s "$OUT" "$IN/l" && echo x > "$IN/l/canary"`,
		"hard link in":        `ln "$OUT/canary" "$IN/hard" && echo x > "$IN/hard"`,
		"mv out":              `mv -f "$IN/canary" "$OUT/canary"`,
		"mv in":               `mv "$OUT/canary" "$IN/taken"`,
		"mv the folder":       `mv "$IN" "$OUT/in"`,
		"mv a folder in":      `mv "$OUT/sub" "$IN/taken"`,
		"rm":                  `rm "$OUT/canary"`,
		"mkdir":               `mkdir "$OUT/new"`,
		"bind mount": `mkdir "$IN/mnt"; unshare -m sh -c 'mount --bind "$OUT" "$IN/mnt" && echo x > ` +
			`"$IN/mnt/canary"'`,
		"own descriptor": `exec 3< "$OUT/canary"; echo x > /proc/self/fd/3`,
		"background":     `(sleep 0.1; echo x > "$OUT/canary") &`,
	} {
		t.Run(name, func(t *testing.T) {
			r, outside, entries := ground(t)
			before := look(t, filepath.Dir(outside))
			out, _ := script(free, r, text, entries...).CombinedOutput()
			if look(t, filepath.Dir(outside)) == before {
				held(t, out)
				t.Fatalf("the break-out does nothing even when nothing holds it: %s", out)
			}
			for _, h := range []how{applied, wrapped} {
				r, outside, entries := ground(t)
				before := look(t, outside)
				out, _ := script(h, r, text, entries...).CombinedOutput()
				assert.Equal(t, before, look(t, outside), "%s: %s", h, out)
			}
		})
	}
}

// TestNoDeviceNodes is about root, who could write to a disk by a node of it.
func TestNoDeviceNodes(t *testing.T) {
	needs(t, abiTruncate)
	for name, text := range map[string]string{
		"block":     `mknod "$IN/disk" b 1 0`,
		"character": `mknod "$IN/null" c 1 3`,
	} {
		for _, h := range []how{free, applied, wrapped} {
			r, _, entries := ground(t)
			out, err := script(h, r, text, entries...).CombinedOutput()
			if h == free {
				if err != nil {
					held(t, out)
				}
				require.NoError(t, err, "%s: %s", name, out)
				continue
			}
			require.Error(t, err, "%s %s got through", h, name)
			assert.Contains(t, string(out), "ermission denied")
		}
	}
}

// TestSandboxInSandbox enters a wider sandbox from inside of a smaller one.
func TestSandboxInSandbox(t *testing.T) {
	needs(t, abiTruncate)
	r, outside, entries := ground(t)
	before := look(t, outside)
	inner := `echo x > "$IN/new" && echo x > "$OUT/canary"`
	wide := Order{Path: "/bin/sh", Rules: Rules{Write: []string{"/"}}}
	p, args, entry := Wrap(self(), wide, []string{"sh", "-c", inner})
	out, err := command(applied, r, env("", entries...), "/usr/bin/env",
		append([]string{entry, p}, args[1:]...)...).CombinedOutput()
	require.Error(t, err)
	assert.Contains(t, string(out), "ermission denied")
	assert.Equal(t, before, look(t, outside))
	assert.FileExists(t, filepath.Join(r.Write[0], "new"))
}

func TestRulesThatAreWrong(t *testing.T) {
	needs(t, abiTruncate)
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	for dir, want := range map[string]string{
		"relative":       `writable folder "relative": the path is not absolute`,
		"":               `writable folder "": the path is not absolute`,
		"/no/such/thing": `writable folder "/no/such/thing": no such file or directory`,
		file:             "not a directory",
	} {
		for _, h := range []how{applied, wrapped} {
			out, err := script(h, Rules{Write: []string{t.TempDir(), dir}}, "echo ran").CombinedOutput()
			var exit *exec.ExitError
			require.ErrorAs(t, err, &exit)
			assert.Contains(t, string(out), want)
			assert.NotContains(t, string(out), "ran")
			if h == wrapped {
				assert.Equal(t, refusal, exit.ExitCode())
			}
		}
	}
}

// TestFolderByLink takes the folder that a link leads to when it starts, and
// keeps to it when the link is turned.
func TestFolderByLink(t *testing.T) {
	needs(t, abiTruncate)
	r, outside, entries := ground(t)
	link := filepath.Join(r.Write[1], "link")
	require.NoError(t, os.Symlink(r.Write[0], link))
	before := look(t, outside)
	r.Write[0] = link
	entries = append(entries, "LINK="+link)
	out, err := script(wrapped, r,
		`echo x > "$LINK/new" && rm "$LINK" && ln -s "$OUT" "$LINK" && echo x > "$LINK/canary"`,
		entries...).CombinedOutput()
	require.Error(t, err)
	assert.Contains(t, string(out), "link/canary")
	assert.Equal(t, before, look(t, outside))
	succeeds(t, script(free, r, `test -f "$IN/new" && test -L "$LINK"`, entries...))
}

// TestSingleFile: a file can be written and cut, but not replaced, removed or renamed, and nothing is made next to it.
func TestSingleFile(t *testing.T) {
	needs(t, abiTruncate)
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	require.NoError(t, os.WriteFile(file, []byte("long before\n"), 0o600))
	r := Rules{Files: []string{file}, Real: true}
	out, err := script(wrapped, r, `echo new > "$F"; rm "$F"; mv "$F" "$F.x"; echo x > "$F.y"; cp "$F" "$F.z"; true`,
		"F="+file).CombinedOutput()
	require.NoError(t, err, string(out))
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	assert.Equal(t, "new\n", string(text))
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	assert.Len(t, entries, 1, string(out))
	out, err = script(wrapped, Rules{Files: []string{dir}}, "echo ran").CombinedOutput()
	require.Error(t, err)
	assert.Contains(t, string(out), "not a directory")
}
