package task

import (
	"bytes"
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"qq/pkg/money"
)

func TestShorten(t *testing.T) {
	for _, c := range []struct {
		s    string
		n    int
		want string
	}{
		{"", 0, ""},
		{"", -1, ""},
		{"abc", 3, "abc"},
		{"abcd", 4, "abcd"},
		{"abcde", 4, "a..."},
		{"abcd", 3, "..."},
		{"abcd", 2, ".."},
		{"abcd", 1, "."},
		{"abcd", 0, ""},
		{"abcd", -5, ""},
		{"äöü€", 4, "äöü€"},
		{"äöü€𝄞", 4, "ä..."},
		{" a \n\t b\r\n", 9, "a b"},
		{"a\u00a0b\u2028c", 9, "a b c"},
		{"ab\xff\xfecd", 5, "ab..."},
		{strings.Repeat("x", 101), 100, strings.Repeat("x", 97) + "..."},
	} {
		assert.Equal(t, c.want, Shorten(c.s, c.n), "%q to %d", c.s, c.n)
	}
}

func TestShortenProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, n := rapid.String().Draw(t, "s"), rapid.IntRange(-3, 40).Draw(t, "n")
		short := Shorten(s, n)
		line := strings.Join(strings.Fields(s), " ")
		assert.LessOrEqual(t, utf8.RuneCountInString(short), max(n, 0))
		assert.NotContains(t, short, "\n")
		if short != line {
			assert.Equal(t, max(n, 0), utf8.RuneCountInString(short), "as much as there is room for")
			assert.True(t, strings.HasPrefix(line, strings.TrimRight(short, ".")))
		}
	})
}

func TestValidate(t *testing.T) {
	for _, c := range []struct {
		task Task
		want string
	}{
		{Task{Text: "do"}, ""},
		{Task{Text: "do", Timeout: 0.5}, ""},
		{Task{Text: "do", Timeout: maxTimeout}, ""},
		{Task{Text: strings.Repeat("x", MaxText)}, ""},
		{Task{}, "task is empty"},
		{Task{Text: " \n\t\u00a0"}, "task is empty"},
		{Task{Text: strings.Repeat("x", MaxText+1)},
			"task is 16777217 bytes long, at most 16777216: put documents into files or context"},
		{Task{Text: "a\xffb"}, "task is not valid UTF-8"},
		{Task{Text: "a\x00b"}, "task contains a NUL character"},
		{Task{Text: "do", Timeout: -1}, "timeout is -1: use seconds above 0"},
		{Task{Text: "do", Timeout: maxTimeout + 1}, "timeout is 3.1622401e+07: use seconds, at most 31622400"},
		{Task{Text: "do", Targets: slices.Repeat([]string{strings.Repeat("a/", 2048)}, 1000)}, ""},
		{Task{Text: "do", Targets: slices.Repeat([]string{"a"}, 1001)},
			"task has 1001 targets, at most 1000: name their folder, or a glob"},
		{Task{Text: "do", Targets: []string{strings.Repeat("{", 4097)}},
			"a target has more than 4096 bytes: give each path as one target"},
		{Task{Text: "do", Targets: []string{"a\x00b"}}, "a target contains a NUL character"},
		{Task{Text: "do", Timeout: math.Inf(1)}, "timeout is +Inf: use seconds, at most 31622400"},
		{Task{Text: "do", Timeout: math.NaN()}, "timeout is NaN: use seconds, at most 31622400"},
	} {
		err := c.task.Validate()
		if c.want == "" {
			assert.NoError(t, err)
			continue
		}
		assert.EqualError(t, err, c.want)
	}
}

func TestNormalized(t *testing.T) {
	assert.Equal(t, Task{Text: "do", Agent: DefaultAgent}, Task{Text: "do"}.Normalized())
	assert.Equal(t, Task{Agent: DefaultAgent}, Task{Agent: " "}.Normalized())
	assert.Equal(t, Task{Agent: "coder"}, Task{Agent: "coder"}.Normalized())
}

func TestDeadline(t *testing.T) {
	assert.Equal(t, time.Minute, Task{}.Deadline(time.Minute))
	assert.Zero(t, Task{}.Deadline(0))
	assert.Equal(t, 1500*time.Millisecond, Task{Timeout: 1.5}.Deadline(time.Minute))
	assert.Equal(t, 2*time.Minute, Task{Timeout: 120}.Deadline(time.Minute), "what the task says counts")
	assert.Equal(t, time.Second, Task{Timeout: 1}.Deadline(0))
}

func TestUsageAdd(t *testing.T) {
	assert.Equal(t, Usage{4, 6, 8, 10, 12}, Usage{1, 2, 3, 4, 5}.Add(Usage{3, 4, 5, 6, 7}))
}

// TestUsageBounded: what does not fit together is cut off.
func TestUsageBounded(t *testing.T) {
	assert.Equal(t, Usage{}, Usage{-1, -2, -3, -4, -5}.Bounded(10))
	assert.Equal(t, Usage{10, 10, 10, money.Most, 20}, Usage{11, 12, 13, money.Most + 1, 30}.Bounded(10))
	assert.Equal(t, Usage{5, 6, 5, 7, 8}, Usage{5, 6, 9, 7, 8}.Bounded(10))
}

// TestUsageAt: with a price the cost of all tokens is known.
func TestUsageAt(t *testing.T) {
	price := money.Price{In: 1000, Out: 2000, Cached: 500, Written: 1250} // for a token 1, 2, 0.5 and 1.25 billionths
	assert.Equal(t, Usage{10, 3, 4, 6 + 2 + 6, 13}, Usage{10, 3, 4, 0, 0}.At(price, 0))
	assert.Equal(t, Usage{10, 3, 4, 7 + 2 + 6, 13}, Usage{10, 3, 4, 0, 0}.At(price, 4), "1 more")
	assert.Equal(t, Usage{}, Usage{}.At(price, 5))
	text, err := json.Marshal(Usage{10, 3, 4, 14, 13})
	require.NoError(t, err)
	assert.Equal(t, `{"input_tokens":10,"output_tokens":3,"cached_tokens":4,"cost":0.000000014,"priced_tokens":13}`,
		string(text))
	text, err = json.Marshal(Usage{InputTokens: 1})
	require.NoError(t, err)
	assert.Equal(t, `{"input_tokens":1,"output_tokens":0}`, string(text), "what is not known is left out")
}

// ends is every end that there is, with its exit code.
func ends() map[Status]int {
	return map[Status]int{
		Completed: 0, Failed: 1, Timeout: 124, Idle: 124, Cancelled: 130, Refused: 1, Interrupted: 130, TurnLimit: 1,
		Empty:  1,
		Broken: 3, NoResult: 1, Killed: 1, Unavailable: 3, Limit: 5, Misused: 2, UnknownOutcome: 1,
	}
}

func TestStatus(t *testing.T) {
	for s, code := range ends() {
		assert.Equal(t, code, s.ExitCode(), s)
		assert.True(t, s.Final(), s)
	}
	for _, s := range []Status{"", Queued, Starting, Running, Waiting, "COMPLETED", "done"} {
		assert.False(t, s.Final(), s)
		assert.Equal(t, 1, s.ExitCode(), "what is no end is no success")
	}
}

// A result says the same in each of its fields, however often its end is
// corrected, and its JSON begins with the five fields that scripts rely on.
func TestResultProperties(t *testing.T) {
	var statuses []Status
	for s := range ends() {
		statuses = append(statuses, s)
	}
	slices.Sort(statuses)
	status, text := rapid.SampledFrom(statuses), rapid.String()
	rapid.Check(t, func(t *rapid.T) {
		from := Task{Text: text.Draw(t, "text"), Agent: text.Draw(t, "agent"), ID: text.Draw(t, "id")}
		r := from.Ended(status.Draw(t, "status"), text.Draw(t, "msg"))
		for range rapid.IntRange(0, 3).Draw(t, "corrections") {
			r.End(status.Draw(t, "status"), text.Draw(t, "msg"))
		}
		assert.Equal(t, r.Status == Completed, r.Success)
		assert.Equal(t, r.Success, r.Error == nil)
		assert.Equal(t, r.Success, r.Err() == "", "a failure has words")
		assert.Equal(t, r.Success, r.ExitCode == 0)
		assert.Equal(t, from.ID, r.ID)

		data, err := json.Marshal(r)
		require.NoError(t, err)
		assert.Equal(t, []string{"task", "agent", "success", "output", "error"}, members(t, data)[:5])
		var m map[string]json.RawMessage
		require.NoError(t, json.Unmarshal(data, &m))
		assert.Equal(t, r.Success, string(m["error"]) == "null")
		for _, always := range []string{"index", "status", "exit_code", "attempts", "duration_ms", "queued_ms",
			"usage", "truncated"} {
			assert.Contains(t, m, always)
		}
		var back Result
		require.NoError(t, json.Unmarshal(data, &back))
		assert.Equal(t, r, back)
	})
}

// members lists the keys of an object in their order.
func members(t require.TestingT, data []byte) (keys []string) {
	dec := json.NewDecoder(bytes.NewReader(data))
	_, err := dec.Token()
	require.NoError(t, err)
	for dec.More() {
		key, err := dec.Token()
		require.NoError(t, err)
		var value json.RawMessage
		require.NoError(t, dec.Decode(&value))
		keys = append(keys, key.(string))
	}
	return keys
}

func TestEndedWithoutWords(t *testing.T) {
	assert.Equal(t, "no_result", Task{}.Ended(NoResult, "").Err())
	assert.Nil(t, Task{}.Ended(Completed, "words that do not belong").Error)
}
