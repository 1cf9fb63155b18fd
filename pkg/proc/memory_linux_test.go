package proc

import (
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func TestExpendable(t *testing.T) {
	score := func(pid int) int {
		text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + scoreFile)
		require.NoError(t, err)
		n, err := strconv.Atoi(strings.TrimSpace(string(text)))
		require.NoError(t, err)
		return n
	}
	own := score(os.Getpid())
	behindEach(t, func(t *testing.T, h *Host) {
		for _, points := range []int{0, 300, 600, 5000} {
			c := helper("hang")
			c.Expendable = points
			s := enter(t, h, c)
			assert.Equal(t, min(own+points, 1000), score(s.PID()))
			s.Kill()
			assert.False(t, s.Wait().OutOfMemory, "Kill did that")
		}
	})
}

func TestCountIn(t *testing.T) {
	for text, want := range map[string]int{
		"oom 1\noom_kill 7\noom_killer 3\n": 7,
		"oom_kill 7":                        7,
		"oom_kill":                          0,
		"oom_kill x\n":                      0,
		"":                                  0,
	} {
		assert.Equal(t, want, countIn([]byte(text), "oom_kill"), text)
	}
}

func TestUsage(t *testing.T) {
	behindEach(t, func(t *testing.T, h *Host) {
		c := helper("hang")
		s := enter(t, h, c)
		s.hear(t)
		memory, threads := s.Usage(1 << 40)
		assert.Greater(t, memory, int64(1<<20))
		assert.Greater(t, threads, 1)
		exact, same := s.Usage(0)
		assert.Positive(t, exact)
		assert.Positive(t, same)
		assert.LessOrEqual(t, exact, memory+1<<20)
		s.Kill()
		s.Wait()
		memory, threads = s.Usage(0)
		assert.Zero(t, memory)
		assert.Zero(t, threads)
	})
}

// TestUsageOfMemoryFiles: a memory file counts once, whoever has it open, and also if nobody has mapped it.
func TestUsageOfMemoryFiles(t *testing.T) {
	fd, err := unix.MemfdCreate("held", unix.MFD_CLOEXEC)
	require.NoError(t, err)
	f := os.NewFile(uintptr(fd), "held")
	defer f.Close()
	const size = 64 << 20
	_, err = f.Write(make([]byte, size))
	require.NoError(t, err)
	behindEach(t, func(t *testing.T, h *Host) {
		c := helper("hang")
		without := enter(t, h, c)
		without.hear(t)
		c = helper("hang")
		c.Extra = []*os.File{f, f}
		s := enter(t, h, c)
		s.hear(t)
		plain, _ := without.Usage(1 << 40)
		for _, enough := range []int64{0, plain + size/2} {
			less, _ := without.Usage(enough)
			more, _ := s.Usage(enough)
			assert.InDelta(t, size, more-less, 16<<20, "%d", enough)
		}
		s.Kill()
		s.Wait()
		without.Kill()
		without.Wait()
	})
}

func TestUsageIn(t *testing.T) {
	line := "7 (a) b) S 1 7 7 0 -1 0 1 2 3 4 5 6 7 8 20 0 13 0 99 1000 77 18446744073709551615 1"
	threads, pages := usageIn([]byte(line))
	assert.Equal(t, 13, threads)
	assert.EqualValues(t, 77, pages)
	for _, cut := range []string{"", "7 (a", "7 (a) S 1", line[:50]} {
		threads, pages = usageIn([]byte(cut))
		assert.True(t, threads == 0 && pages == 0, cut)
	}
}
