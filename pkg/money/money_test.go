package money

import (
	"encoding/json"
	"math"
	"math/big"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestParse(t *testing.T) {
	for text, want := range map[string]Amount{"0": 0, "2.5": 2_500_000_000, "0.000000001": 1, "100000000": Most,
		"007": 7 * one, "0.10": one / 10} {
		got, err := Parse(text)
		require.NoError(t, err, text)
		assert.Equal(t, want, got, text)
	}
	for text, want := range map[string]string{
		"": `"" is no number such as 2.5`, "-1": `"-1" is no number such as 2.5`,
		"1,5": `"1,5" is no number such as 2.5`,
		"1e3": `"1e3" is no number such as 2.5`, ".5": `".5" is no number such as 2.5`,
		"5.":           `"5." is no number such as 2.5`,
		"0.0000000001": `"0.0000000001" has more than 9 digits behind the point`, "100000000.000000001": `is too much`,
		"99999999999999999999": `is too much`, "NaN": `is no number`, "1 ": `is no number`,
	} {
		_, err := Parse(text)
		assert.ErrorContains(t, err, want, text)
	}
}

// TestJSON: whatever an amount is, it is written as a number and read again.
func TestJSON(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := Amount(rapid.Int64().Draw(t, "amount"))
		text, err := json.Marshal(a)
		require.NoError(t, err)
		var back Amount
		require.NoError(t, json.Unmarshal(text, &back))
		assert.Equal(t, a, back, "%s", text)
		if a >= 0 && a <= Most {
			parsed, err := Parse(a.String())
			require.NoError(t, err)
			assert.Equal(t, a, parsed)
		}
	})
	for _, text := range []string{`"1"`, `1e3`, `1.0000000001`, `99999999999999999999`, `{}`} {
		var a Amount
		assert.Error(t, json.Unmarshal([]byte(text), &a), text)
	}
}

func TestShort(t *testing.T) {
	for text, want := range map[string]string{"0": "0", "0.000000001": "<0.0001", "0.0001": "0.0001",
		"0.01234567": "0.0123",
		"0.99999":    "1", "12.5": "12.5", "99.99996": "100", "100": "100.00", "1234.567": "1234.57"} {
		a, err := Parse(text)
		require.NoError(t, err)
		assert.Equal(t, want, a.Short(), text)
	}
}

// TestPrice: a request costs what its tokens cost, exactly, and what is left of a billionth is rounded up.
func TestPrice(t *testing.T) {
	p, err := ParsePrice("1.25/10/0.125")
	require.NoError(t, err)
	assert.Equal(t, "0.010125", p.Of(Tokens{1000, 1000, 900 + 600, 0}).String(), "no more can be cached than there was")
	assert.Equal(t, "0.0101375", p.Of(Tokens{200, 1000, 100, 0}).String())
	p, err = ParsePrice("0.0375/0.15")
	require.NoError(t, err)
	assert.Equal(t, Price{In: 37500, Out: 150000, Cached: 37500, Written: 37500}, p)
	assert.Equal(t, Amount(38), p.Of(Tokens{1, 0, 0, 0}), "37.5 billionths")
	assert.Equal(t, Amount(75), p.Of(Tokens{2, 0, 1, 0}))
	assert.Equal(t, Amount(0), Price{}.Of(Tokens{5, 5, 5, 0}))
	assert.Equal(t, Amount(0), p.Of(Tokens{-5, -5, -5, 0}))
	assert.Equal(t, Amount(15), Price{Cached: 1000, Written: 2000}.Of(Tokens{10, 0, 5, 50}), "nor written")
	assert.Equal(t, Most, Price{In: math.MaxInt64, Out: math.MaxInt64}.Of(Tokens{math.MaxInt, math.MaxInt, 0, 0}))
	for _, bad := range []string{"", "1", "1/", "/1", "1/2/", "1/2/3/4/5", "1/-2", "1.1234567/2", "1/2/x",
		"1000000000/1"} {
		_, err := ParsePrice(bad)
		assert.Error(t, err, bad)
	}
	rapid.Check(t, func(t *rapid.T) {
		p := Price{rapid.Int64Range(0, 1<<40).Draw(t, "in"), rapid.Int64Range(0, 1<<40).Draw(t, "out"),
			rapid.Int64Range(0, 1<<40).Draw(t, "cached"), rapid.Int64Range(0, 1<<40).Draw(t, "written")}
		in, out := rapid.IntRange(0, 1<<40).Draw(t, "n"), rapid.IntRange(0, 1<<40).Draw(t, "m")
		cached := rapid.IntRange(0, in).Draw(t, "c")
		written := rapid.IntRange(0, in-cached).Draw(t, "w")
		sum := new(big.Int)
		add := func(tokens int, price int64) {
			sum.Add(sum, new(big.Int).Mul(big.NewInt(int64(tokens)), big.NewInt(price)))
		}
		add(in-cached-written, p.In)
		add(written, p.Written)
		add(cached, p.Cached)
		add(out, p.Out)
		sum.Add(sum, big.NewInt(999)).Div(sum, big.NewInt(1000))
		if sum.Cmp(big.NewInt(int64(Most))) > 0 {
			sum.SetInt64(int64(Most))
		}
		assert.Equal(t, sum.Int64(), int64(p.Of(Tokens{in, out, cached, written})))
	})
}

// TestTable: a whole name counts more than a beginning, and a long beginning more than a short one, in any order.
func TestTable(t *testing.T) {
	entry := func(name string, in int64) Entry {
		whole, prefix := strings.CutSuffix(name, "*")
		return Entry{Model: whole, Prefix: prefix, Price: Price{In: in}}
	}
	all := []Entry{entry("*", 1), entry("a:*", 2), entry("a:big*", 3), entry("a:big", 4), entry("a:bigger", 5)}
	for range all {
		var table Table
		for i := range all {
			require.NoError(t, table.Add(all[len(all)-1-i]))
		}
		for model, want := range map[string]int64{"b:x": 1, "a:x": 2, "a:big-1": 3, "a:big": 4, "a:bigger": 5,
			"a:biggest": 3} {
			p, ok := table.Of(model)
			assert.True(t, ok)
			assert.Equal(t, want, p.In, model)
		}
		require.ErrorIs(t, table.Add(entry("a:*", 9)), ErrTwice)
		all = append(all[1:], all[0])
	}
	_, ok := Table{entry("a:*", 1)}.Of("b:x")
	assert.False(t, ok)
}

func TestSums(t *testing.T) {
	assert.Equal(t, Amount(3), Amount(1).Add(2))
	assert.Equal(t, Most, Most.Add(Most))
	assert.Equal(t, Amount(0), Amount(-1).Bounded())
	assert.Equal(t, Most, (Most + 1).Bounded())
}
