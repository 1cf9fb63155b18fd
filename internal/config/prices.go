package config

import (
	"fmt"
	"strings"
	"unicode"

	"qq/pkg/money"
)

// latest is the tag that Ollama adds to a name without one.
const latest = ":latest"

// prices reads the prices of models: MODEL=IN/OUT/CACHED/WRITTEN between spaces or commas. An alias has the price of
// its model.
func (c *Config) prices(value string) (money.Table, error) {
	var table money.Table
	if value == None {
		return nil, nil
	}
	for _, item := range strings.FieldsFunc(value, func(r rune) bool { return r == ',' || unicode.IsSpace(r) }) {
		model, price, ok := strings.Cut(item, "=")
		if !ok || model == "" {
			return nil, fmt.Errorf("%s is no price of a model", quoted(item))
		}
		name, prefix := strings.CutSuffix(model, "*")
		if strings.Contains(name, "*") {
			return nil, fmt.Errorf("%s has a * that is not at its end", quoted(model))
		}
		if model != "*" {
			if err := c.model(model); err != nil {
				return nil, err
			}
		}
		if whole := c.Aliases[name]; whole != "" && !prefix {
			name = whole
		}
		if !prefix && !strings.Contains(name, ":") {
			return nil, fmt.Errorf("%s is no model with a price", quoted(model))
		}
		p, err := money.ParsePrice(price)
		if err != nil {
			return nil, fmt.Errorf("the price of %s: %w", model, err)
		}
		one := money.Entry{Model: strings.TrimSuffix(name, latest), Prefix: prefix, Price: p}
		if err := table.Add(one); err != nil {
			return nil, fmt.Errorf("%s %w", model, err)
		}
	}
	return table, nil
}

// Price returns the price of the model of that whole name; ok is false if the user has set none.
func (c Config) Price(model string) (p money.Price, ok bool) {
	return c.Prices.Of(strings.TrimSuffix(model, latest))
}
