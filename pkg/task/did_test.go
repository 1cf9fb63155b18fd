package task

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestDidIsBounded: whatever a child reports, what is kept of it is small and makes sense.
func TestDidIsBounded(t *testing.T) {
	assert.Nil(t, (*Did)(nil).Bounded())
	assert.Nil(t, (&Did{}).Bounded())
	assert.Nil(t, (&Did{Calls: map[string]int{"x": -1, strings.Repeat("y", 1000): 5}}).Bounded(), "no such call")
	many := Did{Calls: map[string]int{"a": 1 << 60}, MoreCommands: -5}
	for i := range 5000 {
		many.Calls[fmt.Sprint("tool", i)] = 1
		many.Commands = append(many.Commands, Command{Line: strings.Repeat("long\n", 1000)})
	}
	d := many.Bounded()
	assert.Len(t, d.Calls, maxDidTools)
	assert.Equal(t, maxDidCalls, d.Calls["a"])
	assert.Len(t, d.Commands, maxDidCommands)
	assert.Equal(t, 5000-maxDidCommands, d.MoreCommands)
	text, err := json.Marshal(d)
	require.NoError(t, err)
	assert.Less(t, len(text), 10_000)
	checked := Did{}
	for range 3 {
		checked.Run(Command{Check: true, ExitCode: 1, Output: "first\n" + strings.Repeat("x\n", maxDidOutput)})
	}
	assert.Empty(t, checked.Commands[0].Output, "only the last check tells")
	assert.Len(t, checked.Commands[2].Output, maxDidOutput)
	assert.True(t, strings.HasPrefix(checked.Commands[2].Output, "..."))
	assert.NotContains(t, string(text), `\n`)
	assert.Equal(t, d, d.Bounded())

	var back Did
	require.NoError(t, json.Unmarshal(text, &back))
	assert.Equal(t, *d, back)
	text, err = json.Marshal(many)
	require.NoError(t, err)
	require.ErrorContains(t, json.Unmarshal(text, &back), "at most")
	worst := Did{Calls: map[string]int{}}
	for i := range maxDidTools {
		worst.Calls[fmt.Sprint(i)+strings.Repeat("\x01", maxDidName-3)] = maxDidCalls
	}
	for range maxDidCommands {
		worst.Run(Command{Line: strings.Repeat("\U0001f600\x01", maxDidLine), ExitCode: -1 << 63, Check: true,
			Output: strings.Repeat("\x01", maxDidOutput)})
	}
	text, err = json.Marshal(worst)
	require.NoError(t, err)
	assert.NoError(t, json.Unmarshal(text, &back), "%d bytes", len(text))
}

// TestDidAdds: a result has what all attempts did.
func TestDidAdds(t *testing.T) {
	var first, second Did
	first.Call("edit_file")
	first.Call("edit_file")
	first.Run(Command{Line: "make", ExitCode: 2})
	second.Call("edit_file")
	second.Call("read_file")
	second.Run(Command{Line: "make", Check: true})
	assert.Equal(t, &Did{
		Calls:    map[string]int{"edit_file": 3, "read_file": 1},
		Commands: []Command{{Line: "make", ExitCode: 2}, {Line: "make", Check: true}},
	}, first.Add(&second))
	assert.Equal(t, &second, (*Did)(nil).Add(&second))
	assert.Equal(t, &second, second.Add(nil))
	assert.Nil(t, (*Did)(nil).Add(nil))
}

// TestCounts: each status belongs to one of four groups, and is counted once.
func TestCounts(t *testing.T) {
	var c Counts
	for _, s := range ended {
		c.Add(s)
	}
	assert.Equal(t, Counts{Completed: 1, Failed: len(ended) - 5, Skipped: 1, Cancelled: 3}, c)
	assert.Equal(t, len(ended), c.Total())
	assert.Equal(t, "2 tasks: 1 completed, 1 skipped", Counts{Completed: 1, Skipped: 1}.String())
	assert.Equal(t, "1 task: 1 cancelled", Counts{Cancelled: 1}.String())
	assert.Equal(t, "0 tasks", Counts{}.String())
}

// TestModelTime: the times of all attempts add up, and what a child says of them is bounded.
func TestModelTime(t *testing.T) {
	d := &Did{}
	d.Asked(0, 0, time.Hour) // not measured
	assert.Nil(t, d.OrNil())
	assert.Zero(t, d.Model.First())
	d.Asked(time.Second, 3*time.Second, 0)
	d.Asked(2*time.Second, 2*time.Second, time.Second)
	assert.Equal(t, ModelTime{Answers: 2, FirstMS: 3000, TookMS: 5000, WaitedMS: 1000}, d.Model)
	assert.Equal(t, 1500*time.Millisecond, d.Model.First())
	assert.Equal(t, 4, d.Add(d).Model.Answers)
	text, err := json.Marshal(d.OrNil())
	require.NoError(t, err)
	assert.JSONEq(t, `{"model": {"answers": 2, "first_ms": 3000, "took_ms": 5000, "waited_ms": 1000}}`, string(text))
	wild := &Did{Model: ModelTime{Answers: 1, FirstMS: 1 << 60, TookMS: 5}}
	assert.Equal(t, ModelTime{Answers: 1, FirstMS: 5, TookMS: 5}, wild.Bounded().Model)
	wild.Model = ModelTime{Answers: -1, FirstMS: -1, TookMS: 1 << 62}
	got := wild.Add(wild)
	assert.Nil(t, got, "no answer")
}
