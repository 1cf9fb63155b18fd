// Package money has exact amounts of money, and the prices of models.
//
// The currency is that of the user: nothing here names it. An [Amount] is a whole number of billionths, so that sums
// are exact. A [Price] has up to six digits behind the point; what one request costs is rounded up to a billionth.
package money

import (
	"errors"
	"fmt"
	"math/bits"
	"strconv"
	"strings"
)

// Amount is an amount of money in billionths.
type Amount int64

const (
	one      = 1_000_000_000
	decimals = 9
	// Most is the largest amount. Sums do not go beyond it.
	Most Amount = 100_000_000 * one
)

// Parse reads an amount such as 2.5.
func Parse(s string) (Amount, error) {
	n, err := decimal(s, decimals)
	return Amount(n), err
}

// decimal reads a number that is not negative, with so many digits behind the point at most, as a multiple of the
// smallest such number.
func decimal(s string, digits int) (int64, error) {
	whole, part, pointed := strings.Cut(s, ".")
	all := whole + part
	switch {
	case whole == "", pointed && part == "", strings.Trim(all, "0123456789") != "":
		return 0, fmt.Errorf("%q is no number such as 2.5", s)
	case len(part) > digits:
		return 0, fmt.Errorf("%q has more than %d digits behind the point", s, digits)
	case len(strings.TrimLeft(whole, "0")) > decimals:
		return 0, fmt.Errorf("%q is too much", s)
	}
	n := int64(0)
	for _, c := range all + strings.Repeat("0", digits-len(part)) {
		n = n*10 + int64(c-'0')
	}
	limit := int64(Most)
	for range decimals - digits {
		limit /= 10
	}
	if n > limit {
		return 0, fmt.Errorf("%q is too much", s)
	}
	return n, nil
}

// Add returns the sum of a and b, at most [Most].
func (a Amount) Add(b Amount) Amount { return min(a+b, Most) }

// Bounded returns a, brought within 0 and [Most].
func (a Amount) Bounded() Amount { return min(max(a, 0), Most) }

// String returns the whole amount in decimal digits.
func (a Amount) String() string {
	sign, n := "", uint64(a)
	if a < 0 {
		sign, n = "-", -n
	}
	s := fmt.Sprintf("%s%d.%09d", sign, n/one, n%one)
	return strings.TrimSuffix(strings.TrimRight(s, "0"), ".")
}

// Short returns the amount in few characters. One that is not 0 is never shown as 0.
func (a Amount) Short() string {
	const least = one / 10_000
	switch {
	case a > 0 && a < least:
		return "<" + Amount(least).String()
	case a < 100*one:
		return ((a + least/2) / least * least).String()
	}
	return fmt.Sprintf("%.2f", float64(a)/one)
}

// MarshalJSON writes a number.
func (a Amount) MarshalJSON() ([]byte, error) { return []byte(a.String()), nil }

// UnmarshalJSON reads a number as MarshalJSON writes it.
func (a *Amount) UnmarshalJSON(data []byte) error {
	whole, part, _ := strings.Cut(string(data), ".")
	if len(part) > decimals {
		return fmt.Errorf("%s has more than %d digits behind the point", data, decimals)
	}
	n, err := strconv.ParseInt(whole+part+strings.Repeat("0", decimals-len(part)), 10, 64)
	if err != nil {
		return fmt.Errorf("%s is no amount: %w", data, err)
	}
	*a = Amount(n)
	return nil
}

// priceDigits is how many digits a price may have behind the point. A price for a million tokens is then a whole number
// of millionths of a millionth for one.
const priceDigits = 6

// Price is what the tokens of a model cost. Each is for a million tokens, in millionths.
type Price struct {
	In     int64 `json:"in"`
	Out    int64 `json:"out"`
	Cached int64 `json:"cached"` // of the input, if the server had them in its cache
	// Written is for those of the input that the server puts into its cache, where it takes another price for that.
	Written int64 `json:"written"`
}

// Tokens are the tokens of a request. Cached and Written are parts of In.
type Tokens struct{ In, Out, Cached, Written int }

// ParsePrice reads IN/OUT, IN/OUT/CACHED or IN/OUT/CACHED/WRITTEN, each for a million tokens. Those that are missing
// are as IN.
func ParsePrice(s string) (p Price, err error) {
	parts := strings.Split(s, "/")
	if len(parts) < 2 || len(parts) > 4 {
		return p, fmt.Errorf("%q is no price", s)
	}
	to := [...]*int64{&p.In, &p.Out, &p.Cached, &p.Written}
	for i, part := range parts {
		if *to[i], err = decimal(part, priceDigits); err != nil {
			return Price{}, err
		}
	}
	for _, missing := range to[len(parts):] {
		*missing = p.In
	}
	return p, nil
}

// Of returns what a request costs.
func (p Price) Of(t Tokens) Amount {
	in := max(t.In, 0)
	cached := min(max(t.Cached, 0), in)
	written := min(max(t.Written, 0), in-cached)
	const each = 1000 // a price has millionths of millionths for a token, an amount has billionths
	var high, low uint64
	for _, item := range [...]struct {
		tokens int
		price  int64
	}{{in - cached - written, p.In}, {cached, p.Cached}, {written, p.Written}, {max(t.Out, 0), p.Out}} {
		h, l := bits.Mul64(uint64(item.tokens), uint64(max(item.price, 0)))
		var carry uint64
		low, carry = bits.Add64(low, l, 0)
		high, _ = bits.Add64(high, h, carry)
	}
	if high >= each {
		return Most
	}
	cost, rest := bits.Div64(high, low, each)
	if rest > 0 {
		cost++
	}
	return Amount(min(cost, uint64(Most)))
}

// Table has the prices of models.
type Table []Entry

// Entry is the price of a model, or of all models whose names begin so.
type Entry struct {
	Model  string // its whole name
	Prefix bool   // Model is only the beginning
	Price  Price
}

// ErrTwice says that a table has two prices for the same.
var ErrTwice = errors.New("has two prices")

// Add adds e to the table.
func (t *Table) Add(e Entry) error {
	for _, other := range *t {
		if other.Model == e.Model && other.Prefix == e.Prefix {
			return ErrTwice
		}
	}
	*t = append(*t, e)
	return nil
}

// Of returns the price of the model of that whole name. A whole name counts more than a beginning, and a long beginning
// more than a short one.
func (t Table) Of(model string) (p Price, ok bool) {
	best := -1
	for _, e := range t {
		rank := len(e.Model)
		switch {
		case !e.Prefix && e.Model == model:
			return e.Price, true
		case e.Prefix && strings.HasPrefix(model, e.Model) && rank > best:
			best, p = rank, e.Price
		}
	}
	return p, best >= 0
}
