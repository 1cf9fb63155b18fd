package shell

import (
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The journal is full in the middle of an output, once in the middle of a character.
func TestFullJournal(t *testing.T) {
	for limit := int64(1 << 20); limit < 1<<20+3; limit++ {
		t.Run(strconv.FormatInt(limit, 10), func(t *testing.T) { fillJournal(t, limit) })
	}
}

func fillJournal(t *testing.T, limit int64) {
	d := newDesk(t)
	d.journal.limit = limit
	assert.Equal(t, "small\n[exit code 0]", d.do("echo small"))
	out := d.do("echo begin; yes ççççç | head -n 200000; echo end")
	assert.True(t, strings.HasSuffix(out, "\nend\n[exit code 0]"), "what the model reads goes on")
	note := regexp.MustCompile(`\[\d+ characters are left out here; its beginning is in (.*), bytes (\d+)-(\d+); the ` +
		`rest is not kept, for that file takes no more than 1 MB\]\n`).FindStringSubmatch(out)
	require.NotNil(t, note, out[14_000:17_000])
	from, err := strconv.Atoi(note[2])
	require.NoError(t, err)
	to, err := strconv.Atoi(note[3])
	require.NoError(t, err)
	log := d.logged()
	assert.InDelta(t, limit, to, 1, "a character has two bytes")
	kept := log[from-1 : to]
	assert.True(t, strings.HasPrefix("begin\n"+strings.Repeat("ççççç\n", 200_000), kept), "the range is true")
	assert.True(t, utf8.ValidString(kept), "no character is cut")
	assert.Equal(t, "\n[the rest is not kept: this file takes no more than 1 MB]\n", log[to:])

	assert.Equal(t, "later\n[exit code 0]", d.do("echo later"), "what is shown is not lost")
	assert.Contains(t, d.do("yes | head -n 20000"),
		"characters are left out here; no file has it: "+d.log+" takes no more than 1 MB]\n")
	assert.Equal(t, log, d.logged(), "nothing more, and said once")
}

// The output fits to the last byte, and how the command ended does not.
func TestJournalThatIsJustFull(t *testing.T) {
	const command = "yes | head -n 20000"
	d := newDesk(t)
	d.journal.limit = int64(len("$ "+command+"\n") + 40_000)
	assert.Contains(t, d.do(command), "the whole output is in "+d.log+", bytes 23-40022]")
	info, err := os.Stat(d.log)
	require.NoError(t, err)
	d.do(command)
	after, err := os.Stat(d.log)
	require.NoError(t, err)
	assert.Equal(t, info.Size(), after.Size())
}
