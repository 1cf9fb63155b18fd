package remote

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qq/internal/box"
)

func TestRemote(t *testing.T) {
	y := newYard(t)
	require.NoError(t, os.WriteFile(filepath.Join(y.Dir, ".env"), []byte("old\n"), 0o600))
	r, _ := y.serveTo()
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			c := y.shell(`echo "$A \xff$LD_PRELOAD"; echo x > f; echo x > .env; exit 7`)
			c.Env = append(c.Env, "A=\xff", "LD_PRELOAD=/of/the/child")
			p, err := r.Start(c, nil)
			require.NoError(t, err)
			<-p.Done()
			o := p.Wait()
			assert.Equal(t, 7, o.Code)
			out, err := os.ReadFile(c.Stdout.Name())
			require.NoError(t, err)
			assert.True(t, bytes.HasPrefix(out, []byte("\xff \\xff\n")), "%q", out)
		})
	}
	wg.Wait()
	assert.Equal(t, "old\n", y.read(".env"))
	assert.Equal(t, "x\n", y.read("f"))

	c := y.shell("true")
	c.Path = "/no/such/program"
	p, err := r.Start(c, nil)
	require.NoError(t, err)
	assert.Equal(t, 126, p.Wait().Code)
	c = y.shell("true")
	c.Dir = filepath.Join(y.Dir, "gone")
	_, err = r.Start(c, nil)
	require.ErrorContains(t, err, "working directory")
}

// TestRemoteTerminal: the command gets the terminal of the child as its own.
func TestRemoteTerminal(t *testing.T) {
	y := newYard(t)
	r, _ := y.serveTo()
	person, tty, err := pty.Open()
	require.NoError(t, err)
	defer person.Close()
	c := y.shell("test -t 1 && echo x > /dev/tty && ! test -t 0 && exit 3")
	c.Stdout, c.Stderr, c.Terminal = tty, tty, true
	p, err := r.Start(c, nil)
	require.NoError(t, err)
	tty.Close()
	assert.Equal(t, 3, p.Wait().Code)
	said := make([]byte, 10)
	n, err := person.Read(said)
	require.NoError(t, err)
	assert.Equal(t, "x\r\n", string(said[:n]))
}

// TestRemoteEnds: a command ends when the child asks for that, when the child is gone, and with the connection.
func TestRemoteEnds(t *testing.T) {
	const hang = "trap 'exit 5' TERM; mkdir -p sub/.git; echo ready > ready; while :; do sleep 0.01; done"
	for name, end := range map[string]func(r *Client, c *Children, p *asked){
		"stop":       func(_ *Client, _ *Children, p *asked) { p.Stop(); p.Stop() },
		"child gone": func(r *Client, _ *Children, p *asked) { p.conn.Close(); r.conn.Close() },
		"closed":     func(_ *Client, c *Children, _ *asked) { c.Close("id") },
		"lost": func(r *Client, c *Children, p *asked) {
			p.conn.Close()
			lost := c.Close("id")
			require.Len(t, lost, 1)
			assert.Contains(t, lost[0], "sub/.git is new")
		},
	} {
		t.Run(name, func(t *testing.T) {
			y := newYard(t)
			r, c := y.serveTo()
			started, err := r.Start(y.shell(hang), nil)
			require.NoError(t, err)
			p := started.(*asked)
			require.Eventually(t, func() bool { return y.read("ready") == "ready\n" }, 10*time.Second, time.Millisecond)
			begin := time.Now()
			end(r, c, p)
			o := p.Wait()
			c.Close("id")
			assert.Less(t, time.Since(begin), 5*time.Second)
			switch name {
			case "stop":
				assert.Equal(t, 5, o.Code)
			case "closed":
				assert.Equal(t, syscall.SIGKILL, o.Signal)
			default:
				assert.Equal(t, []string{"it is not known how the command ended: the root is gone"}, o.Notes)
			}
		})
	}
}

// TestHostileChild: whatever a child sends, the root ends the connection and keeps no descriptor.
func TestHostileChild(t *testing.T) {
	y := newYard(t)
	null, err := os.Open(os.DevNull)
	require.NoError(t, err)
	defer null.Close()
	one, three := syscall.UnixRights(int(null.Fd())), syscall.UnixRights(int(null.Fd()), int(null.Fd()), int(null.Fd()))
	two := syscall.UnixRights(int(null.Fd()), int(null.Fd()))
	size := func(n uint32) []byte { return binary.BigEndian.AppendUint32(nil, n) }
	send := func(conn *net.UnixConn, text []byte, rights []byte) {
		_, _, err := conn.WriteMsgUnix(text, rights, nil)
		require.NoError(t, err)
	}
	valid, err := json.Marshal(request{Path: []byte("/bin/true")})
	require.NoError(t, err)
	y.run("true") // the Host opens what it needs
	before := descriptorsOf(t)
	for name, attack := range map[string]func(conn *net.UnixConn){
		"nothing":         func(*net.UnixConn) {},
		"half a size":     func(c *net.UnixConn) { send(c, []byte{0, 0}, two) },
		"too large":       func(c *net.UnixConn) { send(c, size(1<<31), two) },
		"no descriptors":  func(c *net.UnixConn) { send(c, append(size(2), "{}"...), nil) },
		"one descriptor":  func(c *net.UnixConn) { send(c, append(size(2), "{}"...), one) },
		"too many":        func(c *net.UnixConn) { send(c, append(size(2), "{}"...), three) },
		"no JSON":         func(c *net.UnixConn) { send(c, append(size(2), "{x"...), two) },
		"no socket":       func(c *net.UnixConn) { send(c, size(uint32(len(valid))), two); send(c, valid, nil) },
		"an empty order":  func(c *net.UnixConn) { send(c, append(size(2), "{}"...), two) },
		"a cut off order": func(c *net.UnixConn) { send(c, append(size(9), "{}"...), two) },
	} {
		conn, f, err := Pair()
		require.NoError(t, err)
		child, err := connection(f)
		require.NoError(t, err)
		done := make(chan struct{})
		go func() { defer close(done); Serve(conn, y.Box) }()
		attack(child)
		child.Close()
		<-done
		assert.Equal(t, before, descriptorsOf(t), name)
	}
}

// TestStuckChild: a child that reads no answer, and hands its end of the socket to the command, does not keep the
// command alive; nor do many requests of it.
func TestStuckChild(t *testing.T) {
	y := newYard(t)
	valid, err := json.Marshal(request{Path: []byte("/bin/sleep"), Args: toBytes([]string{"sleep", "60"}),
		Dir: []byte(y.Dir)})
	require.NoError(t, err)
	var c Children
	f, err := c.Open("id")
	require.NoError(t, err)
	child, err := connection(f)
	require.NoError(t, err)
	require.True(t, c.Serve("id", y.Box))
	for range maxCommands + 2 {
		own, theirs, err := Pair()
		require.NoError(t, err)
		mine, err := own.File()
		require.NoError(t, err)
		fd := int(theirs.Fd())
		require.NoError(t, syscall.SetNonblock(fd, true))
		for n := 1; n > 0; { // its socket takes no answer
			n, _ = syscall.Write(fd, make([]byte, 1<<16))
		}
		rights := syscall.UnixRights(fd, int(mine.Fd()))
		_, _, err = child.WriteMsgUnix(binary.BigEndian.AppendUint32(nil, uint32(len(valid))), rights, nil)
		require.NoError(t, err)
		_, err = child.Write(valid)
		require.NoError(t, err)
		theirs.Close()
		mine.Close()
		own.Close()
	}
	child.Close()
	done := make(chan struct{})
	go func() {
		defer close(done)
		c.Close("id")
	}()
	select {
	case <-done:
	case <-time.After(30 * time.Second):
		t.Fatal("the commands of the child live on")
	}
}

// TestHostileMarker: no variable of a child but a mark reaches the program that confines its command. One of them would
// make that program start the command without a sandbox.
func TestHostileMarker(t *testing.T) {
	for _, mark := range []string{
		"QQ_KEEPER=1", "LD_PRELOAD=/x", "QQ_SANDBOX=1", "PATH=", "=", box.MarkPrefix + "=x", box.MarkPrefix + "1=",
		box.MarkPrefix + "1=x\nLD_PRELOAD=/x", box.MarkPrefix + "1=x\x00", "x" + box.MarkPrefix + "1=x",
	} {
		y := newYard(t)
		r, _ := y.serveTo()
		c := y.shell("echo x > ran")
		c.Marker = mark
		_, err := r.Start(c, nil)
		require.Error(t, err, mark)
		assert.Equal(t, "gone", y.read("ran"), mark)
	}
	y := newYard(t)
	r, _ := y.serveTo()
	c := y.shell(`echo "$QQ_COMMAND_ID_3" > ran`)
	c.Marker = box.MarkPrefix + "3=ABC"
	p, err := r.Start(c, nil)
	require.NoError(t, err)
	p.Wait()
	assert.Equal(t, "ABC\n", y.read("ran"))
}

// TestHostileShow: a child is shown files in hidden folders, and nothing else that is hidden.
func TestHostileShow(t *testing.T) {
	hidden, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	secret, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	file := filepath.Join(hidden, "file")
	require.NoError(t, os.WriteFile(file, []byte("shown"), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(secret, "file"), []byte("secret"), 0o600))
	require.NoError(t, os.Symlink(filepath.Join(secret, "file"), filepath.Join(hidden, "link")))
	y := newYard(t, func(c *box.Config) { c.Hidden, c.Servers = []string{hidden}, []string{secret} })
	if o, _ := y.run("true"); !o.Viewed {
		t.Skip("this system lets nobody mount")
	}
	r, _ := y.serveTo()
	c := y.shell("cat " + file + "; cat " + filepath.Join(secret, "file") + "; true")
	p, err := r.Start(c, []string{file, hidden, secret, filepath.Join(hidden, "link"), filepath.Join(secret, "file"),
		filepath.Join(hidden, "none"), "\x00", ""})
	require.NoError(t, err)
	assert.Zero(t, p.Wait().Code)
	said, err := os.ReadFile(c.Stdout.Name())
	require.NoError(t, err)
	assert.Contains(t, string(said), "shown")
	assert.NotContains(t, string(said), "secret\n")
	assert.Contains(t, string(said), "No such file")
	_, err = r.Start(y.shell("true"), make([]string, maxShown+1))
	require.Error(t, err)
}

// TestLongOutcome: an outcome that is too long for its child says what it leaves out.
func TestLongOutcome(t *testing.T) {
	out := box.Outcome{Notes: []string{"a note"}}
	for range 20_000 {
		out.Changed = append(out.Changed, ".vscode/"+strings.Repeat("\x01", 100))
	}
	line := lineOf(out)
	require.Less(t, len(line), maxOutcome)
	var r reply
	require.NoError(t, json.Unmarshal(line, &r))
	require.NotEmpty(t, r.Outcome.Changed)
	require.Len(t, r.Outcome.Notes, 2)
	assert.Equal(t, "a note", r.Outcome.Notes[0])
	assert.Equal(t, fmt.Sprintf("%d more files that programs obey changed: they are too many to be listed",
		20_000-len(r.Outcome.Changed)), r.Outcome.Notes[1])
	require.Len(t, out.Notes, 1)
}

func descriptorsOf(t *testing.T) int {
	entries, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	return len(entries)
}

func TestNoConnection(t *testing.T) {
	var c Children
	assert.False(t, c.Serve("id", nil))
	c.Close("id")
	f, err := c.Open("id")
	require.NoError(t, err)
	f.Close()
	again, err := c.Open("id")
	require.NoError(t, err)
	again.Close()
	c.Close("id")
	file, err := os.Open(os.DevNull)
	require.NoError(t, err)
	_, err = New(file)
	require.ErrorContains(t, err, "open the connection for commands")
}

// FuzzRequest: what a child sends is a request or an error.
func FuzzRequest(f *testing.F) {
	f.Add([]byte("\x00\x00\x00\x02{}"))
	f.Add([]byte("\x00\x00\x00\x20{\"path\":\"L2Jpbi9zaA==\",\"args\":[]}"))
	f.Add([]byte("\xff\xff\xff\xff"))
	f.Fuzz(func(t *testing.T, sent []byte) {
		if len(sent) > 1<<16 {
			return // more than the socket takes at once
		}
		conn, file, err := Pair()
		require.NoError(t, err)
		defer conn.Close()
		child, err := connection(file)
		require.NoError(t, err)
		out, err := os.Open(os.DevNull)
		require.NoError(t, err)
		defer out.Close()
		if len(sent) > 0 {
			_, _, err = child.WriteMsgUnix(sent, syscall.UnixRights(int(out.Fd()), int(out.Fd())), nil)
			require.NoError(t, err)
		}
		child.Close()
		q, files, err := receive(conn)
		for _, f := range files {
			f.Close()
		}
		if err == nil {
			require.LessOrEqual(t, len(q.Path), maxRequest)
			require.True(t, files[0] != nil && files[1] != nil)
		}
	})
}

// TestSameBox: a command of a child and one of the root are held by the same rules.
func TestSameBox(t *testing.T) {
	y := newYard(t)
	r, _ := y.serveTo()
	c := y.shell("cat /proc/self/status | grep -E '^(Seccomp|NoNewPrivs|CapEff)'; ls -A; echo x > " +
		filepath.Join(y.t.TempDir(), "x"))
	p, err := r.Start(c, nil)
	require.NoError(t, err)
	assert.NotZero(t, p.Wait().Code)
	said, err := os.ReadFile(c.Stdout.Name())
	require.NoError(t, err)
	_, local := y.run(c.Args[2])
	assert.Equal(t, local, string(said))
	assert.True(t, strings.Contains(local, "NoNewPrivs:\t1"), local)
}
